"""What the handlers share: the App, and threads for what waits for the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hermes.app import API_THREADS, App
from hermes.config.hermes_file import Api

T = TypeVar("T")


class Service:
    def __init__(self, app: App, settings: Api) -> None:
        self.app = app
        self.settings = settings
        self._threads = ThreadPoolExecutor(API_THREADS, thread_name_prefix="hermes-api")

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def aside(self, work: Callable[[], None]) -> None:
        """Done some time, and nobody waits for it. It raises nothing."""
        self._threads.submit(work)

    def close(self) -> None:
        self._threads.shutdown(wait=True)

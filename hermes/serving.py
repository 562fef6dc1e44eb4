"""An ASGI application served from a thread of this process: the API, the local board."""

from __future__ import annotations

import asyncio
import socket
import threading

import uvicorn


class ServerThread:
    """Serves at `listener` once this returns. `stop` answers what is under way first."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, name: str) -> None:
        self._listener = listener
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run_on, args=(listener,), name=name, daemon=True)
        self._thread.start()
        self._server.ready.wait()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


class _Server(uvicorn.Server):
    """Leaves the signals of the process alone and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    def run_on(self, listener: socket.socket) -> None:
        try:
            asyncio.run(self._serve([listener]))
        finally:
            self.ready.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()

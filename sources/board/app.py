"""The ASGI application: Notion's API under /v1, the board's own pages beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sources.board.admin import admin_routes
from sources.board.board import Board
from sources.board.dispatch import Dispatcher, Dropped
from sources.board.guard import Guard
from sources.board.kanban import Kanban


def build_app(board: Board, *, hosts: Iterable[str] = (), faults: Iterable[dict[str, Any]] = ()) -> ASGIApp:
    dispatcher = Dispatcher(board)
    for fault in faults:
        dispatcher.disturbances.add(fault)
    pages = Starlette(routes=[*admin_routes(dispatcher), *Kanban(board).routes()])

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].startswith("/v1/"):
            dispatcher.disturbances.land()
            await pages(scope, receive, send)
            return
        try:
            response = await dispatcher(Request(scope, receive))
        except Dropped:
            await _cut(scope)
            return
        await response(scope, receive, send)

    return Guard(app, hosts=hosts)


async def _cut(scope: Scope) -> None:
    """Close the connection without an answer, and let the server notice before we return without one."""
    transport = scope.get("state", {}).get("board.transport")
    if transport is not None:
        transport.abort()
        await asyncio.sleep(0.001)

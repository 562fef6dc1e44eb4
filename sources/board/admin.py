"""What tests ask of the board beside Notion's API: the ledger and the faults, under /_board/."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sources.board.dispatch import Dispatcher
from sources.board.ids import PERSON_ID, ROOT_PAGE_ID


def admin_routes(dispatcher: Dispatcher) -> list[Route]:
    async def about(request: Request) -> Response:
        return JSONResponse(
            {"root_page_id": ROOT_PAGE_ID, "person_id": PERSON_ID, "revision": dispatcher.board.store.revision}
        )

    async def ledger(request: Request) -> Response:
        return JSONResponse(dispatcher.ledger.shown())

    async def reset_ledger(request: Request) -> Response:
        dispatcher.ledger.reset()
        return Response(status_code=204)

    async def faults(request: Request) -> Response:
        return JSONResponse({"pending": dispatcher.faults.pending()})

    async def add_faults(request: Request) -> Response:
        wanted = await request.json()
        try:
            for description in wanted if isinstance(wanted, list) else [wanted]:
                dispatcher.faults.add(description)
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"pending": dispatcher.faults.pending()}, 201)

    async def clear_faults(request: Request) -> Response:
        dispatcher.faults.clear()
        return Response(status_code=204)

    return [
        Route("/_board/", about),
        Route("/_board/ledger", ledger, methods=["GET"]),
        Route("/_board/ledger", reset_ledger, methods=["DELETE"]),
        Route("/_board/faults", faults, methods=["GET"]),
        Route("/_board/faults", add_faults, methods=["POST"]),
        Route("/_board/faults", clear_faults, methods=["DELETE"]),
    ]

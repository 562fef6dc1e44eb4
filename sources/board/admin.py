"""What tests ask of the board beside Notion's API: the ledger, the faults and the webhooks, under /_board/."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sources.board.dispatch import Dispatcher
from sources.board.ids import PERSON_ID, ROOT_PAGE_ID
from sources.board.named_faults import NAMES


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
        return JSONResponse(dispatcher.disturbances.shown())

    async def names(request: Request) -> Response:
        shown = [
            {"name": name, "calls": named.calls, "default": named.default, "scripted": named.scripted}
            | {"does": named.does, "notion": named.notion, "example": named.example}
            for name, named in NAMES.items()
        ]
        return JSONResponse({"names": shown})

    async def add_faults(request: Request) -> Response:
        try:
            wanted = await request.json()
            for description in wanted if isinstance(wanted, list) else [wanted]:
                dispatcher.disturbances.add(description)
        except (ValueError, TypeError, AttributeError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse(dispatcher.disturbances.shown(), 201)

    async def clear_faults(request: Request) -> Response:
        dispatcher.disturbances.clear()
        return Response(status_code=204)

    async def webhooks(request: Request) -> Response:
        return JSONResponse({"webhooks": dispatcher.webhooks.shown()})

    async def subscribe(request: Request) -> Response:
        try:
            made = dispatcher.webhooks.subscribe((await request.json()).get("url"))
        except (ValueError, AttributeError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"id": made.id, "url": made.url, "verified": made.verified}, 201)

    async def verify(request: Request) -> Response:
        """As a person pastes the token in Notion's settings."""
        try:
            token = (await request.json()).get("verification_token")
        except (ValueError, AttributeError):
            token = None
        if not dispatcher.webhooks.verify(request.path_params["id"], token):
            return JSONResponse({"error": "no such webhook, or another token than the one that was posted to it"}, 400)
        return JSONResponse({"verified": True})

    async def unsubscribe(request: Request) -> Response:
        return Response(status_code=204 if dispatcher.webhooks.unsubscribe(request.path_params["id"]) else 404)

    return [
        Route("/_board/", about),
        Route("/_board/ledger", ledger, methods=["GET"]),
        Route("/_board/ledger", reset_ledger, methods=["DELETE"]),
        Route("/_board/faults", faults, methods=["GET"]),
        Route("/_board/faults/names", names, methods=["GET"]),
        Route("/_board/faults", add_faults, methods=["POST"]),
        Route("/_board/faults", clear_faults, methods=["DELETE"]),
        Route("/_board/webhooks", webhooks, methods=["GET"]),
        Route("/_board/webhooks", subscribe, methods=["POST"]),
        Route("/_board/webhooks/{id}/verify", verify, methods=["POST"]),
        Route("/_board/webhooks/{id}", unsubscribe, methods=["DELETE"]),
    ]

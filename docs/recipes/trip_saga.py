"""Several systems, all or nothing: what was done is taken back, the newest first, when a later part fails."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache

import httpx

from hermes.durable import Refused, command, current_step, function


@command(retries=3, timeout=timedelta(seconds=30))
def reserve(what: str, reference: str) -> bool:
    """Under a reference of ours, so that it can be taken back even if its answer never came. False: sold out."""
    answer = _travel().put(f"/{what}/{reference}", headers=_key())
    if answer.status_code == 409:
        return False  # a refusal is an answer, not an accident
    answer.raise_for_status()
    return True


@command(retries=20, timeout=timedelta(seconds=30))
def release(what: str, reference: str) -> None:
    """Of one that was never reserved: nothing to do, and no error. It has more retries than the rest: what is half
    undone helps nobody."""
    answer = _travel().delete(f"/{what}/{reference}", headers=_key())
    if answer.status_code != 404:
        answer.raise_for_status()


@function
async def book_trip(trip: str) -> str | Refused:
    begun: list[str] = []
    why = None
    for what in ("flights", "hotels", "cars"):
        begun.append(what)  # before it is asked for: one whose answer was lost may stand all the same
        try:
            if not await reserve(what, trip):
                why = f"{what} are sold out"
        except Exception as exc:  # noqa: BLE001 - its retries are used up: whatever it was, the rest is taken back
            why = f"{what}: {type(exc).__name__}: {exc}"
        if why is not None:
            break
    if why is None:
        return f"trip {trip} is booked"
    for what in reversed(begun):  # outside the `try`: a release that fails is not compensated, it is tried again
        await release(what, trip)
    return Refused(f"Nothing is booked for trip {trip}: {why}.")


def _travel() -> httpx.Client:
    return _client(os.environ.get("TRAVEL_URL", "http://127.0.0.1:8998"))


@cache
def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url)  # one for the process: it keeps its connections, and threads may share it


def _key() -> dict[str, str]:
    return {"Idempotency-Key": current_step().idempotency_key}

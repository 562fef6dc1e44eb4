"""Durable functions of every shape for the medley: what each does outside is known beforehand, place by place."""

from __future__ import annotations

import json
import urllib.request
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from hermes.durable import (
    CardInput,
    Event,
    command,
    continue_as_new,
    current_step,
    delay,
    fire,
    function,
    start,
    wait_for_event,
    when_all,
    when_any,
)
from hermes.durable.endings import ContinueAsNew


class Parcel(BaseModel):
    number: int


ARRIVED = Event("MEDLEY_ARRIVED", Parcel)
ASKED = Event("MEDLEY_ASKED")


@command(timeout=timedelta(seconds=15))
def act(recorder: str, name: str, place: str) -> str:
    """A keyed effect that the recorder sees as `name`, `place`."""
    request = urllib.request.Request(
        f"{recorder}/keyed/effect", json.dumps({"card": name, "place": place}).encode(), method="POST"
    )
    request.add_header("Idempotency-Key", current_step().idempotency_key)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as answer:
        content: dict[str, Any] = json.load(answer)
    return str(content["receipt"])


@command(retries=1)
def refuse() -> None:
    raise ValueError("sold out")


@function(name="medley.sleeps")
async def sleeps(recorder: str, name: str) -> None:
    for place in range(3):
        await act(recorder, name, f"{place}")
        await delay(timedelta(seconds=0.5))
    await act(recorder, name, "end")


@function(name="medley.waits")
async def waits(recorder: str, name: str) -> None:
    """Every number that is fired for its name, in order, each once."""
    for place in range(3):
        await act(recorder, name, f"{place}")
        parcel = await wait_for_event(ARRIVED, name, forever=True)
        await act(recorder, name, f"parcel {parcel.number}")


@function(name="medley.races")
async def races(recorder: str, name: str) -> None:
    """One end of the race or the other, never both, and the event is not lost when time wins."""
    arrived, deadline = wait_for_event(ARRIVED, name, forever=True), delay(timedelta(seconds=1.5))
    if await when_any(arrived, deadline) is deadline:
        await act(recorder, name, "late")
    await act(recorder, name, f"parcel {(await arrived).number}")


@function(name="medley.fans_out")
async def fans_out(recorder: str, name: str) -> None:
    await when_all(*[act(recorder, name, f"{place}") for place in range(6)])
    await act(recorder, name, "end")


@function(name="medley.compensates")
async def compensates(recorder: str, name: str) -> None:
    await act(recorder, name, "flight")
    await act(recorder, name, "hotel")
    try:
        await refuse()
    except ValueError:
        await act(recorder, name, "no hotel")
        await act(recorder, name, "no flight")


@function(name="medley.child")
async def child(recorder: str, name: str, number: int) -> int:
    await act(recorder, name, f"child {number}")
    await delay(timedelta(seconds=0.3))
    await act(recorder, name, f"child {number} end")
    return number


@function(name="medley.has_children")
async def has_children(recorder: str, name: str) -> None:
    found = await when_all(*[start(child, f"{name}/{number}", recorder, name, number) for number in range(3)])
    await act(recorder, name, f"children {sum(found)}")


@function(name="medley.goes_on")
async def goes_on(recorder: str, name: str, round_: int = 0) -> ContinueAsNew | None:
    await act(recorder, name, f"round {round_}")
    await delay(timedelta(seconds=0.2))
    return continue_as_new(goes_on, recorder, name, round_ + 1) if round_ < 3 else None


@function(name="medley.answers")
async def answers(recorder: str, name: str) -> None:
    """Half of a pair: waits to be asked."""
    await wait_for_event(ASKED, name, forever=True)
    await act(recorder, name, "answered")


@function(name="medley.asks")
async def asks(recorder: str, name: str) -> None:
    other = start(answers, f"{name}/answers", recorder, name)
    await act(recorder, name, "before")
    await fire(ASKED, name)
    await other
    await act(recorder, name, "after")


@function(name="medley.card")
async def card(card: CardInput, recorder: str) -> str:
    return await act(recorder, card.id, "1")

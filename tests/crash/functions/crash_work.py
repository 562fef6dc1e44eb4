"""Durable functions for the crash tests. Each command sends one request to the recording service, under its own key."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from hermes.durable import command, current_step, delay, function
from hermes.durable.endings import Found
from hermes.model.claim import CardInput


def _send(url: str, body: object) -> str:
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    request.add_header("Idempotency-Key", current_step().idempotency_key)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as answer:
        content: dict[str, Any] = json.load(answer)
    return str(content["receipt"])


def _slowly(pause: float) -> str:
    """The recorder takes so long before it records, and again before it answers."""
    return f"?before={pause}&after={pause}" if pause else ""


def _ask(key: str, recorder: str, card_id: str, place: int, pause: float = 0.0) -> Found[str] | None:
    try:
        with urllib.request.urlopen(f"{recorder}/checkable/effect?key={quote(key)}", timeout=10) as answer:
            return Found(str(json.load(answer)["receipt"]))
    except urllib.error.HTTPError as refused:
        if refused.code == 404:
            return None
        raise


@command(retries=5, timeout=timedelta(seconds=15))
def keyed(recorder: str, card_id: str, place: int, pause: float = 0.0) -> str:
    return _send(f"{recorder}/keyed/effect{_slowly(pause)}", {"card": card_id, "place": place})


@command(retries=5, timeout=timedelta(seconds=15), effect="checkable", check=_ask)
def checkable(recorder: str, card_id: str, place: int, pause: float = 0.0) -> str:
    return _send(f"{recorder}/checkable/effect{_slowly(pause)}", {"card": card_id, "place": place})


@command(retries=5, timeout=timedelta(seconds=15), effect="naive")
def naive(recorder: str, card_id: str, place: int, pause: float = 0.0) -> str:
    return _send(f"{recorder}/naive/effect{_slowly(pause)}", {"card": card_id, "place": place})


@command(retries=0, timeout=timedelta(seconds=15))
def once(recorder: str, card_id: str, place: int, pause: float = 0.0) -> str:
    return _send(f"{recorder}/naive/effect{_slowly(pause)}", {"card": card_id, "place": place})


@command(timeout=timedelta(seconds=60))
def slow(recorder: str, card_id: str, seconds: float) -> str:
    """A call that takes long, and an effect at its end."""
    time.sleep(seconds)
    return _send(f"{recorder}/keyed/effect", {"card": card_id, "place": 1})


@command(timeout=timedelta(seconds=60))
async def blocking(recorder: str, card_id: str, seconds: float) -> str:
    """Blocking code in an async command: it holds the event loop of its worker."""
    time.sleep(seconds)
    return _send(f"{recorder}/keyed/effect", {"card": card_id, "place": 1})


@command(timeout=timedelta(seconds=15))
def poison(title: str) -> None:
    """The others are in the middle of something each time the process dies."""
    if "poison" in title:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1.5)


@function
async def five_effects(card: CardInput, recorder: str, sleep_seconds: float = 0.5) -> str:
    """The card of the campaign: five keyed effects and a delay in the middle."""
    for place in range(1, 4):
        await keyed(recorder, card.id, place)
    await delay(timedelta(seconds=sleep_seconds))
    for place in range(4, 6):
        await keyed(recorder, card.id, place)
    return f"did {card.title}"


@function
async def two_effects(card: CardInput, recorder: str, sleep_seconds: float = 0.3) -> str:
    """The smallest card with a step before, a delay, and a step after."""
    await keyed(recorder, card.id, 1)
    await delay(timedelta(seconds=sleep_seconds))
    await keyed(recorder, card.id, 2)
    return f"did {card.title}"


@function
async def one_keyed(card: CardInput, recorder: str) -> str:
    return await keyed(recorder, card.id, 1)


@function
async def one_checkable(card: CardInput, recorder: str) -> str:
    return await checkable(recorder, card.id, 1)


@function
async def one_naive(card: CardInput, recorder: str) -> str:
    return await naive(recorder, card.id, 1)


@function
async def one_at_most_once(card: CardInput, recorder: str) -> str:
    return await once(recorder, card.id, 1)


@function
async def one_slow(card: CardInput, recorder: str, seconds: float = 12.0) -> str:
    return await slow(recorder, card.id, seconds)


@function
async def one_blocking(card: CardInput, recorder: str, seconds: float = 12.0) -> str:
    return await blocking(recorder, card.id, seconds)


@function
async def maybe_poison(card: CardInput, recorder: str) -> str:
    await poison(card.title)
    return await keyed(recorder, card.id, 2)


@function
async def mixed(card: CardInput, recorder: str) -> str:
    """The card of the siege: two commands of the class that its title names, and a delay between them."""
    kind = {"keyed": keyed, "checkable": checkable, "naive": naive, "once": once}[card.title.split()[0]]
    await kind(recorder, card.id, 1, 0.1)
    await delay(timedelta(seconds=0.3))
    await kind(recorder, card.id, 2, 0.1)
    return f"did {card.title}"

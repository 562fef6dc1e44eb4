"""Webhooks of the local board, as Notion sends them: a token is posted once and must be handed back; afterwards every
change is an event, signed with that token and sent at most once, by a thread that holds no call up.

What is not taken at the first try is lost, and the plan may drop, double and reorder events: a hint, never the truth.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import secrets
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any
from urllib.parse import urlsplit

from sources.board.board import Board
from sources.board.guard import LOOPBACK
from sources.board.ids import PERSON_ID, WORKSPACE_ID, new_id
from sources.board.store import Changes
from sources.board.webhook_events import Event, events_of

PATIENCE_SECONDS = 5.0
"""A receiver that takes longer has not taken the event."""
HELD_BACK_SECONDS = 1.0
"""An event that is to come after the next one does not wait for it any longer."""


@dataclass(slots=True)
class Subscription:
    id: str
    url: str
    token: str = field(repr=False)
    verified: bool = False
    sent: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class _Letter:
    subscription: Subscription
    body: dict[str, Any]
    signed: bool = True


class Webhooks:
    def __init__(self, board: Board, fault: Callable[[int], str | None]) -> None:
        """`fault` tells what the n-th event meets on its way."""
        self._board = board
        self._fault = fault
        self._subscriptions: dict[str, Subscription] = {}
        self._letters: queue.SimpleQueue[_Letter | None] = queue.SimpleQueue()
        """None ends the thread."""
        self._number = 0
        self._post = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._thread: threading.Thread | None = None
        board.store.on_commit.append(self._hear)
        board.on_close.append(lambda: self._letters.put(None))

    def subscribe(self, url: Any) -> Subscription:
        """The token goes to `url`; events follow once it was handed to `verify`. Raises ValueError."""
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or parts.hostname not in LOOPBACK:
            raise ValueError("url must be an http address of this machine: a local board tells nobody else")
        made = Subscription(new_id(), str(url), f"secret_{secrets.token_urlsafe(32)}")
        self._subscriptions[made.id] = made
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="webhooks", daemon=True)
            self._thread.start()
        self._letters.put(_Letter(made, {"verification_token": made.token}, signed=False))
        return made

    def verify(self, subscription_id: str, token: Any) -> bool:
        found = self._subscriptions.get(subscription_id)
        if found is None or not isinstance(token, str) or not hmac.compare_digest(found.token, token):
            return False
        found.verified = True
        return True

    def unsubscribe(self, subscription_id: str) -> bool:
        return self._subscriptions.pop(subscription_id, None) is not None

    def shown(self) -> list[dict[str, Any]]:
        """Without tokens."""
        return [
            {"id": s.id, "url": s.url, "verified": s.verified, "sent": s.sent, "lost": s.lost}
            for s in self._subscriptions.values()
        ]

    def _hear(self, changes: Changes) -> None:
        verified = [s for s in self._subscriptions.values() if s.verified]
        for event in events_of(changes) if verified else ():
            for subscription in verified:
                self._letters.put(_Letter(subscription, self._envelope(event, subscription)))

    def _envelope(self, event: Event, subscription: Subscription) -> dict[str, Any]:
        node = self._board.store.get(event.data.get("parent_id"))
        parent: dict[str, Any] = {}
        if node is not None and node.kind == "data_source":
            parent = {"parent": {"id": node.parent_id, "type": "database", "data_source_id": node.id}}
        elif node is not None:
            parent = {"parent": {"id": node.id, "type": node.kind}}
        at = self._board.now().astimezone(UTC)
        return {
            "id": new_id(),
            "timestamp": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
            "workspace_id": WORKSPACE_ID,
            "workspace_name": self._board.workspace_name,
            "subscription_id": subscription.id,
            "type": event.type,
            "authors": [{"id": event.author_id, "type": "person" if event.author_id == PERSON_ID else "bot"}],
            "attempt_number": 1,
            "entity": {"id": event.entity_id, "type": event.entity_type},
            "data": {**parent, **{key: value for key, value in event.data.items() if key != "parent_id"}},
        }

    def _deliver(self) -> None:
        """The thread: one event after the other."""
        held: _Letter | None = None
        while True:
            try:
                letter = self._letters.get(timeout=HELD_BACK_SECONDS if held else None)
                if letter is None:
                    return
                fault = self._fault_of(letter)
                if fault == "webhook_reordered" and held is None:
                    held = letter
                    continue
                for _ in range({"webhook_dropped": 0, "webhook_doubled": 2}.get(fault or "", 1)):
                    self._send(letter)
            except queue.Empty:
                pass
            if held is not None:
                self._send(held)
                held = None

    def _fault_of(self, letter: _Letter) -> str | None:
        if not letter.signed:
            return None
        self._number += 1
        return self._fault(self._number)

    def _send(self, letter: _Letter) -> None:
        body = json.dumps(letter.body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "notion-local-board"}
        if letter.signed:
            headers["X-Notion-Signature"] = signature(letter.subscription.token, body)
        request = urllib.request.Request(letter.subscription.url, body, headers, method="POST")  # noqa: S310
        try:
            with self._post.open(request, timeout=PATIENCE_SECONDS):
                letter.subscription.sent += 1
        except (OSError, ValueError):
            letter.subscription.lost += 1


def signature(token: str, body: bytes) -> str:
    return "sha256=" + hmac.new(token.encode(), body, hashlib.sha256).hexdigest()

"""One board: its store, its clock, and who may be an author on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hermes.clock import Clock, SystemClock
from sources.board.ids import PERSON_ID, PERSON_TOKEN, ROOT_PAGE_ID, bot_id
from sources.board.store import Node, Store


class Board:
    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        tokens: Mapping[str, str] | None = None,
        workspace_name: str = "Local board",
        durable: bool = False,
    ) -> None:
        """`tokens` maps each accepted token to the name of its integration; without it any token is accepted."""
        self.clock = clock or SystemClock()
        self.store = Store(path, durable=durable)
        self.workspace_name = workspace_name
        self.on_close: list[Callable[[], None]] = []
        self._names = tokens
        self._bots: dict[str, str] = {}
        self._found()

    def close(self) -> None:
        for end in self.on_close:
            end()
        self.store.close()

    def now(self) -> datetime:
        return self.clock.now()

    def bot_for(self, token: str) -> str | None:
        """The user behind a token, made at its first call; None when the token is not accepted."""
        known = self._bots.get(token)
        if known is not None:
            return known
        if not token or (self._names is not None and token not in self._names):
            return None
        user_id = bot_id(token)
        if self._names is None and token == PERSON_TOKEN:
            return PERSON_ID
        name = self._names[token] if self._names is not None else f"Integration {user_id[:4]}"
        if self.store.get(user_id) is None:
            with self.store.transaction():
                self._add_user(user_id, {"type": "bot", "name": name})
        self._bots[token] = user_id
        return user_id

    def user(self, user_id: str) -> Node | None:
        node = self.store.get(user_id)
        return node if node is not None and node.kind == "user" else None

    def integration(self, user_id: str) -> dict[str, Any]:
        """Who a refusal says the object is not shared with."""
        user = self.user(user_id)
        return {"id": user_id, "name": user.body["name"] if user else "unknown"}

    def _found(self) -> None:
        """A fresh board has one person and one page at its root."""
        if self.store.get(ROOT_PAGE_ID) is not None:
            return
        with self.store.transaction():
            self._add_user(PERSON_ID, {"type": "person", "name": "Person at the board", "email": "person@localhost"})
            now = self.now()
            self.store.put(
                Node(
                    id=ROOT_PAGE_ID,
                    kind="page",
                    parent_id=None,
                    position=self.store.place(None),
                    created_at=now,
                    edited_at=now,
                    created_by=PERSON_ID,
                    edited_by=PERSON_ID,
                    in_trash=False,
                    body={"properties": {"title": [{"content": self.workspace_name}]}},
                )
            )

    def _add_user(self, user_id: str, body: dict[str, Any]) -> None:
        now = self.now()
        self.store.put(
            Node(
                id=user_id,
                kind="user",
                parent_id="users",
                position=self.store.place("users"),
                created_at=now,
                edited_at=now,
                created_by=user_id,
                edited_by=user_id,
                in_trash=False,
                body=body,
            )
        )

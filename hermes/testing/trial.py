"""One installation of real processes, its board and its recording service, for tests that kill and stop them.

What is read here is read as a stranger would: the board through Notion's API, the database by its own driver, effects
in the recorder's own log. No code of Hermes takes part in the judging.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg.rows import dict_row

from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery, Started
from hermes.testing.recorder import Recorded, read_log
from sources.board import PERSON_TOKEN

VERSION = "2026-03-11"
BOTH = ("scheduler", "worker")


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


def eventually(what: str, found: Callable[[], Any], seconds: float = 30.0, every: float = 0.05) -> Any:
    """The first true thing that `found` gives; AssertionError when it gives none in time."""
    over = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > over:
            raise AssertionError(f"not within {seconds:g} s: {what} (last seen: {value!r})")
        time.sleep(every)


class Trial:
    """`functions`: a Python file with the durable functions, `action` the poll's action. Times are those of the board's
    protocol, `claim` and `workers` sections of the configuration. With `postgres` the database is a new one there, else
    a SQLite file. `beside` is another installation whose board and recorder this one shares."""

    def __init__(
        self,
        folder: Path,
        nursery: Nursery,
        functions: Path,
        function: str,
        *,
        workers: dict[str, Any] | None = None,
        claim: dict[str, Any] | None = None,
        times: dict[str, float] | None = None,
        timeout_seconds: float = 5.0,
        every: str = "1s",
        mode: str = "exclusive",
        args: dict[str, Any] | None = None,
        postgres: PostgresServer | None = None,
        beside: Trial | None = None,
    ) -> None:
        self.folder = folder
        self.nursery = nursery
        self.config = folder / "config"
        self.database = folder / "data" / "hermes.db"
        self.url = postgres.new_database(tables=False) if postgres else f"sqlite:///{self.database}"
        self.beside = beside
        self.effects: Path = beside.effects if beside else folder / "effects.log"
        self.board_port: int = beside.board_port if beside else free_port()
        self.recorder_port: int = beside.recorder_port if beside else free_port()
        self.processes: list[Started] = []
        self.outside: list[Started] = []
        """Board and recorder: nobody kills them."""
        self.board_key = ""
        self._started = 0
        (self.config / "polls").mkdir(parents=True)
        (folder / "out").mkdir()
        shutil.copy(functions, self.config / functions.name)
        _write(
            self.config / "hermes.yaml",
            {
                "functions": [functions.stem],
                "database": self.url,
                "workers": {"slots": 4, "lease": "5s", "tick": "1s", **(workers or {})},
                "connections": {
                    "board": {
                        "type": "local",
                        "port": self.board_port,
                        "timeout_seconds": timeout_seconds,
                        "times": {"guard": 1, "settle": 1.5, "wait_out": 3, "hint_age": 1, **(times or {})},
                    }
                },
                "boards": {"team": {"connection": "board", "board": "Team tasks", "mode": mode}},
                # By night it would work beside what is tried, and a kill in it leave its turn taken for a while.
                "retention": {"at": "never"},
                "log": {"level": "info", "format": "json"},
            },
        )
        _write(
            self.config / "polls" / "tasks.yaml",
            {
                "poll": "tasks",
                "source": {"type": "board", "board": "team"},
                "schedule": {"every": every},
                "action": {
                    "type": "function",
                    "function": f"{functions.stem}.{function}",
                    "args": {"recorder": f"http://127.0.0.1:{self.recorder_port}", **(args or {})},
                },
                "claim": {"max_concurrent": 4, "max_open": 20, **(claim or {})},
            },
        )

    # -- processes

    def open(self) -> Trial:
        """Start board and recorder, make the database and the board."""
        if self.beside is None:
            board = self._start("board", "board", path=str(self.folder / "board.db"), port=self.board_port)
            recorder = self._start("recorder", "recorder", path=str(self.effects), port=self.recorder_port)
            self.outside = [board, recorder]
        for port in (self.board_port, self.recorder_port):
            eventually(f"port {port} answers", partial(_answers, port))
        self.nursery.warm(self.config)
        prepared = self._start("prepare", "prepare", config=str(self.config))
        if prepared.wait(60) != 0:
            raise RuntimeError(prepared.output.read_text())
        self.board_key = json.loads(prepared.output.read_text().splitlines()[-1])["team"]
        return self

    def up(
        self,
        roles: Sequence[str] = BOTH,
        *,
        crash: str = "",
        log: Path | None = None,
        task: str = "hermes",
        **options: Any,
    ) -> Started:
        """A Hermes process. `crash` as HERMES_CRASH_POINTS, `log` as HERMES_CRASH_LOG."""
        env = {"HERMES_CRASH_POINTS": crash}
        if log is not None:
            env["HERMES_CRASH_LOG"] = str(log)
        name = "-".join(["hermes", *(role[0] for role in roles), *([crash] if crash else [])])
        process = self._start(name, task, env, config=str(self.config), roles=list(roles), **options)
        self.processes.append(process)
        return process

    def _start(self, name: str, task: str, env: dict[str, str] | None = None, **args: Any) -> Started:
        self._started += 1
        output = self.folder / "out" / f"{self._started:03d}-{name.replace(':', '_').replace(',', '_')}.log"
        output.touch()
        return self.nursery.start(name, task, output, env, **args)

    def close(self) -> None:
        """End everything that still runs."""
        for process in self.processes:
            process.send(signal.SIGCONT)
            process.kill()
        for process in self.processes:
            process.wait()
        for outside in self.outside:  # those of `beside` are its own to close
            outside.kill()
            outside.wait()

    # -- playing the people

    def add_cards(self, *titles: str, status: str = "Todo") -> list[str]:
        return [self._add_card(title, status) for title in titles]

    def _add_card(self, title: str, status: str) -> str:
        properties = {"Name": {"title": [{"text": {"content": title}}]}, "Status": {"select": {"name": status}}}
        parent = {"type": "data_source_id", "data_source_id": self.board_key}
        made = self.ask("POST", "/v1/pages", {"parent": parent, "properties": properties})
        return str(made["id"])

    def move(self, card_id: str, status: str) -> None:
        self.ask("PATCH", f"/v1/pages/{card_id}", {"properties": {"Status": {"select": {"name": status}}}})

    # -- looking

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Of the board, as a person at it: whom faults by rate do not meet."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.board_port}{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {PERSON_TOKEN}")
        request.add_header("Notion-Version", VERSION)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 -- our own loopback address
            raw = answer.read()
        return json.loads(raw) if raw else None

    def fault(self, **fault: Any) -> None:
        """A one-shot fault of the board, or `plan={...}`: docs/faults.md."""
        self.ask("POST", "/_board/faults", fault)

    def clear_faults(self) -> None:
        self.ask("DELETE", "/_board/faults")

    def cards(self) -> dict[str, dict[str, Any]]:
        """Every card of the board by its id, plain values by column."""
        found: dict[str, dict[str, Any]] = {}
        asked: dict[str, Any] = {"page_size": 100}
        while True:
            answer = self.ask("POST", f"/v1/data_sources/{self.board_key}/query", asked)
            found |= {
                page["id"]: {name: _plain(value) for name, value in page["properties"].items()}
                for page in answer["results"]
            }
            if not answer.get("has_more"):
                return found
            asked["start_cursor"] = answer["next_cursor"]

    def card(self, card_id: str) -> dict[str, Any]:
        page = self.ask("GET", f"/v1/pages/{card_id}")
        return {name: _plain(value) for name, value in page["properties"].items()}

    def comments(self, card_id: str) -> list[str]:
        found = self.ask("GET", f"/v1/comments?block_id={card_id}")["results"]
        return ["".join(part["plain_text"] for part in comment["rich_text"]) for comment in found]

    def ledger(self) -> Any:
        return self.ask("GET", "/_board/ledger")

    def hermes_calls(self) -> list[dict[str, Any]]:
        """Every call to the board that was not made by this trial, in the order of arrival."""
        ours = self.ask("GET", "/v1/users/me")["id"]
        return [call for call in self.ledger()["calls"] if call["bot"] != ours]

    def writes_to(self, card_id: str) -> list[dict[str, Any]]:
        """Every PATCH of properties that Hermes sent for this card, in the order of arrival: plain values by column."""
        return self.writes().get(card_id, [])

    def writes(self, *, landed: bool = False) -> dict[str, list[dict[str, Any]]]:
        """`landed`: only those that changed the board."""
        schema = self.ask("GET", f"/v1/data_sources/{self.board_key}")["properties"]
        columns = {column["id"]: name for name, column in schema.items()}
        options = {
            option["id"]: option["name"]
            for column in schema.values()
            for option in column.get(column["type"], {}).get("options", [])
        }
        found: dict[str, list[dict[str, Any]]] = {}
        for call in self.hermes_calls():
            if not call["wrote"] or (landed and call["outcome"] != "applied"):
                continue
            values = {columns.get(name, name): _plain(value, options) for name, value in call["wrote"].items()}
            for card_id in call["objects"]:
                found.setdefault(card_id, []).append(values)
        return found

    @property
    def on_postgres(self) -> bool:
        return self.url.startswith("postgresql")

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """`?` stands for a value on either database."""
        if self.on_postgres:
            with psycopg.connect(self.url, row_factory=dict_row) as asking:
                return asking.execute(query.replace("?", "%s").encode(), values).fetchall()
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]

    def run_of(self, card_id: str) -> dict[str, Any]:
        """The one run of a card."""
        found = self.rows("SELECT * FROM runs WHERE object_id = ? AND kind = 'card'", card_id)
        assert len(found) == 1, f"{card_id} has {len(found)} runs"  # noqa: S101
        return found[0]

    def log(self) -> list[Recorded]:
        return read_log(self.effects)

    def wait_final(self, card_ids: Iterable[str], seconds: float = 60.0) -> None:
        """Until the board shows each of them in a final state."""
        wanted = set(card_ids)

        def settled() -> bool:
            cards = self.cards()
            return all(cards[card_id]["Status"] in FINAL for card_id in wanted)

        eventually("every card is final", settled, seconds, every=0.2)

    def wait_quiet(self, card_ids: Iterable[str], seconds: float = 60.0) -> None:
        """Until the database too has closed its rows of them: what is written last."""
        wanted = set(card_ids)
        self.wait_final(wanted, seconds)

        def closed() -> bool:
            open_rows = self.rows("SELECT card_id FROM cards WHERE state NOT IN ('done', 'gone') OR holder IS NOT NULL")
            return not wanted & {row["card_id"] for row in open_rows}

        eventually("every row is closed", closed, seconds, every=0.2)


EXCLUSIVE = "SELECT 1 FROM boards WHERE alone_since IS NOT NULL AND queried_at > alone_since"
"""True when the next claim is made by the exclusive protocol: three calls a card."""
FINAL = ("Complete", "Failed", "Cancelled", "Needs attention")


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _plain(value: dict[str, Any], options: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Of a property as Notion answers or takes it; `options`: their names by id."""
    kind = value.get("type") or next(iter(value))
    content = value.get(kind)
    if kind in ("title", "rich_text"):
        return "".join(part.get("plain_text") or part.get("text", {}).get("content", "") for part in content or [])
    if kind in ("select", "status"):
        return content and (content.get("name") or options.get(content["id"], content["id"]))
    if kind == "date":
        return content and content["start"]
    return content


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")  # JSON is YAML

"""Replays recorded Notion traffic against the local board and compares the answers.

    python tests/sources/board/likeness.py RECORDINGS [--write docs/board-likeness.md] [--check]

RECORDINGS is a folder of JSON files, each a list of {method, path, query, version, request, status, response}. Every
file meets a fresh board, seeded with what the file mentions but never made. `--check` fails unless every status and
error code is the same and at least 95 % of the answers of each served route have the same shape, with every difference
explained.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
from likeness_report import unexplained, write_report
from likeness_seed import Seeder, objects_in, parent_id
from likeness_shape import differences

from hermes.testing.clock import FakeClock
from sources.board import BoardServer, running
from sources.board.routes import match

Json = dict[str, Any]
TOKEN = "likeness"
UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
WANTED_SHARE = 0.95
OPEN_LISTS = frozenset(("POST /v1/search", "GET /v1/users", "GET /v1/file_uploads"))
"""Lists over a whole workspace: how many items there are is not compared, only what they look like."""


@dataclass
class Tally:
    compared: int = 0
    same_status: int = 0
    errors: int = 0
    same_code: int = 0
    same_message: int = 0
    same_shape: int = 0
    parts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


@dataclass
class Result:
    routes: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    skipped: Counter[str] = field(default_factory=Counter)
    codes: set[str | None] = field(default_factory=set)
    seeded: int = 0
    stubs: int = 0

    def ok(self) -> bool:
        return all(
            t.same_status == t.compared and t.same_code == t.errors and t.same_shape >= WANTED_SHARE * t.compared
            for t in self.routes.values()
        )


def dashed(text: str) -> str:
    bare = text.replace("-", "")
    return "-".join((bare[:8], bare[8:12], bare[12:16], bare[16:20], bare[20:]))


@dataclass
class Replay:
    """One file against one board."""

    server: BoardServer
    clock: FakeClock
    local: dict[str, str] = field(default_factory=dict)
    """Recorded ids (and property ids, and cursors) to those of the board."""

    def to_local(self, text: str) -> str:
        if text in self.local:
            return self.local[text]
        return UUID.sub(lambda m: self.local.get(dashed(m[0]), m[0]), text)

    def translated(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.local.get(key, key): self.translated(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.translated(item) for item in value]
        return self.to_local(value) if isinstance(value, str) else value

    def learn(self, recorded: Any, answered: Any, key: str = "") -> None:
        """Pair the ids that stand at the same place of both answers."""
        if isinstance(recorded, dict) and isinstance(answered, dict):
            for name in recorded.keys() & answered.keys():
                self.learn(recorded[name], answered[name], name)
        elif isinstance(recorded, list) and isinstance(answered, list):
            for left, right in zip(recorded, answered, strict=False):
                self.learn(left, right, key)
        elif isinstance(recorded, str) and isinstance(answered, str) and recorded != answered:
            names = key == "id" or key.endswith("_id") or key == "next_cursor"
            if names and not self._known(recorded):
                self.local[recorded] = answered
                self.local.setdefault(unquote(recorded), unquote(answered))

    def _known(self, recorded: str) -> bool:
        return recorded == "title" or recorded in self.local or self.server.board.store.get(recorded) is not None

    def send(self, http: httpx.Client, item: Json) -> httpx.Response:
        path = "/".join(quote(self.to_local(unquote(part)), safe="") for part in item["path"].split("/"))
        query = self.to_local_query(item.get("query") or "")
        request = item["request"]
        headers = {"Notion-Version": item["version"]}
        headers["Authorization"] = "Bearer unknown" if item["status"] == 401 else f"Bearer {TOKEN}"
        self._set_clock(item["response"])
        if isinstance(request, dict) and "_text" in request:
            boundary = request["_text"].split("\r\n", 1)[0].removeprefix("--")
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
            return http.request(item["method"], f"{path}{query}", content=request["_text"].encode(), headers=headers)
        body = None if request is None else json.dumps(self.translated(request)).encode()
        headers["Content-Type"] = "application/json"
        return http.request(item["method"], f"{path}{query}", content=body, headers=headers)

    def to_local_query(self, query: str) -> str:
        if not query:
            return ""
        pairs = [pair.partition("=") for pair in query.split("&")]
        return "?" + "&".join(f"{name}={quote(self.to_local(unquote(value)), safe='')}" for name, _, value in pairs)

    def _set_clock(self, answer: Any) -> None:
        """Objects are made at the minute at which they were recorded."""
        text = answer.get("created_time") if isinstance(answer, dict) else None
        if isinstance(text, str):
            at = datetime.fromisoformat(text)
            if at > self.clock.now():
                self.clock.step_wall(at - self.clock.now() + timedelta(milliseconds=1))


def read_recordings(folder: Path) -> dict[str, list[Json]]:
    recordings = {
        str(file.relative_to(folder)): json.loads(file.read_text()) for file in sorted(folder.rglob("*.json"))
    }
    for interactions in recordings.values():
        for item in interactions:
            if isinstance(item["response"], dict) and item["response"].get("type") == "user":
                part_users(item["response"]["results"])
    return recordings


def part_users(users: list[Json]) -> None:
    """Redaction gave several integrations of one list one id: let those that are not the caller be others again."""
    counts = Counter(user["id"] for user in users)
    for number, user in enumerate(users):
        if counts[user["id"]] > 1 and "owner" not in (user.get("bot") or {}):
            user["id"] = f"{user['id'][:-4]}{number:04x}"


def made_here(interactions: list[Json]) -> set[str]:
    """Ids of what a file makes itself, with all that stands below it."""
    made: set[str] = set()
    for item in interactions:
        answer = item["response"]
        if not isinstance(answer, dict) or item["status"] >= 300:
            continue
        creates = item["method"] == "POST" and not item["path"].endswith(("/query", "/search", "/send"))
        if creates and "id" in answer:
            made.add(answer["id"])
            made.update(source["id"] for source in answer.get("data_sources", ()))
        if item["method"] == "PATCH" and item["path"].endswith("/children"):
            made.update(block["id"] for block in answer.get("results", ()))
        for inner in objects_in(answer):
            above = parent_id(inner)
            if above in made:
                made.add(inner["id"])
    return made


def mentioned(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Ids with what the key beside them says they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from mentioned(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from mentioned(inner, key)
    elif isinstance(value, str) and key.endswith("_id") and UUID.fullmatch(value):
        yield dashed(value), key.removesuffix("_id")


def seed_for(name: str, recordings: dict[str, list[Json]], replay: Replay) -> Seeder:
    """What this file mentions and does not make, as it was when it was first seen."""
    here = recordings[name]
    made = made_here(here)
    known: dict[str, Json] = {}
    for item in here:
        for inner in objects_in(item["response"]):
            known.setdefault(inner["id"], inner)
    for other in recordings.values():
        for item in other:
            for inner in objects_in(item["response"]):
                known.setdefault(inner["id"], inner)
    listings: dict[str, list[str]] = {}
    for item in here:
        if item["method"] == "GET" and item["path"].endswith("/children") and item["status"] == 200:
            held = dashed(UUID.findall(item["path"])[0])
            listed = listings.setdefault(held, [])
            listed.extend(b["id"] for b in item["response"]["results"] if b["id"] not in listed)
    seeder = Seeder(replay.server.board, known, listings)
    integration = integration_of(here)
    if integration is not None:
        replay.local[integration] = str(replay.server.board.bot_for(TOKEN))
        seeder.done.add(integration)
    wanted: dict[str, str | None] = {}
    for item in here:
        if item["status"] == 404 or item["status"] == 401:
            continue
        for inner in objects_in(item["response"]):
            wanted.setdefault(inner["id"], None)
        path_ids = [dashed(found) for found in UUID.findall(item["path"])]
        kinds = {"pages": "page", "databases": "database", "data_sources": "data_source", "blocks": "block"}
        for found in path_ids[:1]:
            wanted.setdefault(found, kinds.get(item["path"].split("/")[2]))
        for found, kind in mentioned(item["request"]):
            wanted.setdefault(found, kind if kind in kinds.values() else None)
    for found, kind in wanted.items():
        if found not in made:
            seeder.seed(found, kind)
    return seeder


def integration_of(interactions: list[Json]) -> str | None:
    """Whose token the recording was made with."""
    for item in interactions:
        if item["method"] == "POST" and "created_by" in item["response"]:
            return str(item["response"]["created_by"]["id"])
        for user in objects_in(item["response"]):
            if "owner" in (user.get("bot") or {}):
                return str(user["id"])
    return None


def mask(message: str) -> str:
    return re.sub(r'integration "[^"]*"', 'integration ""', UUID.sub("ID", message))


def compare(item: Json, response: httpx.Response, replay: Replay, label: str, tally: Tally, where: str) -> None:
    recorded = item["response"]
    tally.compared += 1
    tally.same_status += response.status_code == item["status"]
    try:
        answered = response.json()
    except ValueError:
        answered = {"_text": response.text}
    if item["status"] >= 400:
        tally.errors += 1
        tally.same_code += recorded.get("code") == answered.get("code")
        tally.same_message += mask(recorded.get("message", "")) == mask(answered.get("message", ""))
    elif response.status_code < 300:
        replay.learn(recorded, answered)
    parts = list(differences(recorded, answered, replay.to_local, lengths=label not in OPEN_LISTS))
    if response.status_code != item["status"]:
        parts.insert(0, f"status {item['status']} became {response.status_code}: {answered.get('message')}")
    tally.same_shape += not parts
    for part in dict.fromkeys(re.sub(r"(\.properties)\.[^.:]+", r"\1.*", part) for part in parts):
        tally.parts[part] += 1
        tally.examples.setdefault(part, where)


def replay_all(folder: Path) -> Result:
    recordings = read_recordings(folder)
    result = Result()
    for name, interactions in recordings.items():
        clock = FakeClock(datetime.fromisoformat("2026-06-01T00:00:00+00:00"))
        with (
            tempfile.TemporaryDirectory() as place,
            running(Path(place) / "board.db", clock=clock, tokens={TOKEN: "Recorded"}) as server,
            httpx.Client(base_url=server.url) as http,
        ):
            replay = Replay(server, clock)
            seeder = seed_for(name, recordings, replay)
            result.seeded += len(seeder.done - seeder.stubs)
            result.stubs += len(seeder.stubs)
            for number, item in enumerate(interactions):
                found = match(item["method"], [unquote(part) for part in item["path"].strip("/").split("/")])
                label = found[0].label if found else f"{item['method']} {item['path']}"
                if found is None and item["status"] < 400:
                    result.skipped[f"{item['method']} {UUID.sub('{id}', item['path'])}: not served"] += 1
                    continue
                response = replay.send(http, item)
                if item["status"] >= 400:
                    result.codes.add(item["response"].get("code"))
                compare(item, response, replay, label, result.routes[label], f"{name}#{number}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--write", type=Path, help="write the report to this file")
    parser.add_argument("--check", action="store_true", help="fail unless the board is alike enough")
    chosen = parser.parse_args()
    result = replay_all(chosen.recordings)
    report = write_report(result)
    print(report)
    if chosen.write:
        chosen.write.write_text(report)
    return 1 if chosen.check and (not result.ok() or unexplained(result)) else 0


if __name__ == "__main__":
    sys.exit(main())

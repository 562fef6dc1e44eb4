"""Notion's own answers, replayed through the real client into the adapter (recordings/LICENSES.md: whose they are)."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import vcr
from pydantic import SecretStr

from hermes.errors import Gone, Misconfigured, Unauthorized
from hermes.model.card import Card, CardStatus, CardValues
from hermes.testing.limiter import NotedLimiter
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard
from sources.notion.answers import EndpointGone
from sources.notion.cards import to_card
from sources.notion.columns import read_columns
from sources.notion.locate import Located, locate

HERE = Path(__file__).parent
TASKS = "d8f438e1-b402-4836-9db0-e6ca323012d8"
TASKS_WITH_STATUS = "3839ce7b-60a4-8148-99ed-000b1e2cf103"
EVERY_TYPE = "3839ce7b-60a4-802c-b152-000ba814957b"
PAGED = "8b12b4c6-6b39-4e47-a2af-fdfdd0a63c7a"
OPTIONS = "644fa078-8e60-4d34-a610-edb882d218d1"
DATABASE = "b81ac93e-6107-4c8d-b5b6-a53ba25ad477"


@pytest.fixture
def client(limiter: NotedLimiter) -> Iterator[NotionClient]:
    client = NotionClient(NotionConnection(token=SecretStr("ntn_recorded")), limiter)
    yield client
    client.close()


@contextmanager
def replay(name: str) -> Iterator[Any]:
    recorder = vcr.VCR(record_mode=vcr.mode.NONE, match_on=["method", "scheme", "host", "port", "path"])
    with recorder.use_cassette(str(HERE / "cassettes" / f"{name}.yaml")) as cassette:
        yield cassette


def board(client: NotionClient, data_source: str, **settings: Any) -> NotionTaskBoard:
    wanted = {"connection": "notion", "board": data_source, **settings}
    recorded = NotionTaskBoard("recorded", BoardSettings.model_validate(wanted), client)
    recorded.located = Located("data source", data_source, "Recorded", None, None)  # a recording plays once
    return recorded


def cards(board: NotionTaskBoard) -> dict[str, Card]:
    """All rows of the answer, also those that are not open."""
    columns = board._schema()
    return {card.title: card for page in board._query(columns) for card in [to_card(page, columns)]}


NAMES = {"todo": "Backlog", "in_progress": "In Progress", "complete": "Done", "failed": "Blocked"}


def test_cassettes_are_what_the_script_makes_of_the_recordings() -> None:
    script = _script()
    for name in script.CHOSEN:
        assert (HERE / "cassettes" / f"{name}.yaml").read_text() == script.cassette(name)


def test_schema_of_a_select_board_says_exactly_what_is_missing(client: NotionClient) -> None:
    with replay("tasks"), pytest.raises(Misconfigured) as raised:
        board(client, TASKS, statuses=NAMES).open_cards()
    said = str(raised.value)
    for name in ("ClaimedBy", "RunId", "ClaimedAt", "ClaimExpiresAt", "CompletedAt", "RetryCount", "LastError"):
        assert f"column {name!r}" in said
    assert "'Status'" not in said.split("The board has")[0]
    assert "'Due Date'" in said.split("The board has")[1]


def test_rows_of_a_select_board(client: NotionClient) -> None:
    with replay("tasks"):
        seen = cards(board(client, TASKS, statuses=NAMES))
    assert {title: card.status for title, card in seen.items()} == {
        "Task 1": CardStatus.complete,
        "Task 2": CardStatus.todo,
        "Task 3": CardStatus.in_progress,
    }
    first = seen["Task 1"]
    assert (first.priority, first.priority_rank) == (None, math.inf)
    assert first.created_at == datetime(2026, 6, 27, 17, 2, tzinfo=UTC)
    assert first.properties["Due Date"] == "2024-01-01"
    assert isinstance(first.properties["Done"], bool)


def test_rows_of_a_status_board(client: NotionClient) -> None:
    with replay("tasks_with_status"):
        tasks = board(client, TASKS_WITH_STATUS, statuses=NAMES)
        seen = cards(tasks)
        assert tasks._schema().require("status").type == "status"
    assert {card.status for card in seen.values()} == {CardStatus.complete, CardStatus.todo, CardStatus.failed}
    by_rank = sorted(seen.values(), key=lambda card: card.priority_rank)
    assert [card.priority for card in by_rank] == ["✹ High", "✷ Medium", "✶ Low"]


def test_every_type_of_column_is_read_or_left_out(client: NotionClient) -> None:
    with replay("every_type"):
        names = {"todo": "Not started", "in_progress": "In progress", "complete": "Done", "failed": "nowhere"}
        seen = cards(board(client, EVERY_TYPE, statuses=names))
    for card in seen.values():
        kinds = {name: type(value) for name, value in card.properties.items()}
        assert "Button" not in kinds
        assert "Place" not in kinds
        assert kinds["Checkbox"] is bool
        assert kinds["Multi-Select"] is list
        assert kinds["Created time"] is str
        assert kinds["Text"] is str
        assert kinds["ID"] is str
        assert kinds["Last edited by"] is str
        assert {"Rollup", "Formula", "Relation", "Files", "People"} <= set(kinds)


def test_ids_arrive_encoded_and_are_found_on_pages(client: NotionClient) -> None:
    with replay("every_type"):
        source = client.read("GET", f"data_sources/{EVERY_TYPE}")
        [page, *_] = client.read("POST", f"data_sources/{EVERY_TYPE}/query", body={})["results"]
    columns = read_columns(source, BoardSettings(connection="n", board=EVERY_TYPE, columns={"run_id": "Text"}))
    assert "%" in columns.require("status").id
    assert columns.require("title").id == "title"
    ids = {entry["id"] for entry in page["properties"].values()}
    assert {column.id for column in columns.by_logical.values()} <= ids


def test_query_is_paged_to_its_end(client: NotionClient) -> None:
    with replay("paging") as cassette:
        seen = [
            row["id"]
            for answer in client.pages("POST", f"data_sources/{PAGED}/query", {"page_size": 100})
            for row in answer["results"]
        ]
        assert cassette.play_count == 2
    assert len(seen) == len(set(seen)) == 10


def test_write_of_a_select_is_known_again_in_its_answer(client: NotionClient) -> None:
    names = {"todo": "Open", "in_progress": "Blocked", "complete": "Closed", "failed": "nowhere"}
    with replay("select_write"):
        options = board(client, OPTIONS, statuses=names)
        card = options.write("38c9ce7b60a4813ca0a4da617aa696fa", CardValues(status=CardStatus.complete))
    assert (card.status, card.status_name) == (CardStatus.complete, "Closed")


def test_database_is_located_and_the_bot_knows_its_name(client: NotionClient) -> None:
    with replay("database"):
        found = locate(client, f"https://www.notion.so/Items-{DATABASE.replace('-', '')}?v={'1' * 32}")
        assert client.whoami()["name"] == "Ultimate Notion Tests"
    assert (found.kind, found.data_source_id) == ("database", "a6b79269-a275-446d-9ff4-86b0219d890e")


def test_database_with_two_data_sources_is_refused(client: NotionClient) -> None:
    with replay("two_data_sources"), pytest.raises(Misconfigured, match=r"'Items' \(.*'People' \("):
        locate(client, f"https://www.notion.so/{DATABASE}")


def test_comments(client: NotionClient) -> None:
    page = "38c9ce7b-60a4-81d1-85fa-deb7ce88ad6c"
    with replay("comments"):
        tasks = board(client, TASKS)
        assert list(tasks._comments(page)) == []
        tasks.comment(page, "run-1/comment", "My first comment", again=False)
        assert list(tasks._comments(page)) == ["My first comment"]


def test_append_between_other_blocks_answers_those_that_follow_too(client: NotionClient) -> None:
    page = "38c9ce7b-60a4-8170-940b-d75e4e9f53a1"
    with replay("append"):
        answers = [client.write("PATCH", f"blocks/{page}/children", {"children": []}) for _ in range(2)]
        [listing] = client.pages("GET", f"blocks/{page}/children", {"page_size": 100})
    added, follower = answers[1]["results"]
    assert follower["id"] == answers[0]["results"][1]["id"]
    assert added["id"] in {block["id"] for block in listing["results"]}


def test_body_of_an_empty_page(client: NotionClient) -> None:
    with replay("markdown"):
        assert board(client, TASKS).read_body("393abc1e-edcd-81d5-bf32-d1339d9031c2") == ""


@pytest.mark.parametrize(
    ("name", "path", "kind", "says"),
    [
        ("page_not_found", "pages/7855b161-f63e-4683-b7c7-8ca6e97ee266", Gone, "shared with your integration"),
        ("bad_page_id", "pages/12345678-1234-1234-1234-123456789abc", Gone, "No such id"),
        ("bad_token", "users", Unauthorized, "API token is invalid"),
        ("bad_route", "invalid", EndpointGone, "invalid_request_url"),
    ],
)
def test_errors(name: str, path: str, kind: type[Exception], says: str, client: NotionClient) -> None:
    with replay(name), pytest.raises(kind, match=says) as raised:
        client.read("GET", path)
    assert type(raised.value) is kind


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_cassettes", HERE / "make_cassettes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

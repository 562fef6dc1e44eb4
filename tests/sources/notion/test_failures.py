"""B1 to B15 of FAILURES.md (network and Notion API), through the real client over HTTP."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from hermes.cli.commands import build
from hermes.clock import SystemClock
from hermes.errors import Fatal, Gone, Misconfigured, Retryable, SourceError, Unauthorized, UnknownOutcome
from hermes.limits import DatabaseLimiter
from hermes.limits.limiter import LONGEST_WAIT_SECONDS
from hermes.model.card import CardStatus, CardValues
from hermes.testing.clock import FakeClock
from hermes.testing.limiter import NotedLimiter
from hermes.testing.odd_server import OddServer, http_answer
from sources.board import running
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard
from sources.notion.init import create_board
from sources.notion.text import units

PATCH = "PATCH /v1/pages/{page_id}"
GET = "GET /v1/pages/{page_id}"
QUERY = "POST /v1/data_sources/{data_source_id}/query"
COMMENT = "POST /v1/comments"
SCHEMA = "GET /v1/data_sources/{data_source_id}"
Z = 65

APPLIED = ["unavailable_after", "bad_gateway_after", "edge_timeout", "drop", "truncated", "wrong_json", "login_page"]
NOT_APPLIED = ["lost", "unavailable", "internal_error", "bad_gateway"]


def about(crew: Any, card: str) -> list[dict[str, Any]]:
    return [call for call in crew.calls() if card in call["objects"]]


def completions(crew: Any, card: str) -> list[dict[str, Any]]:
    return [c for c in about(crew, card) if c["route"] == PATCH and "CompletedAt" in names(crew, c["wrote"] or {})]


def names(crew: Any, wrote: dict[str, Any]) -> set[str]:
    """Columns are written by id."""
    source = crew.server.board.store.get(crew.board.key)
    return {source.body["properties"][httpx.QueryParams(f"k={i}")["k"]]["name"] for i in wrote}


def ready_to_finish(crew: Any) -> str:
    card: str = crew.add()
    crew.poll()
    crew.work()
    crew.forget()
    return card


# -- B1, B2


@pytest.mark.parametrize("name", APPLIED)
def test_failures_B1_a_write_that_landed_unseen_is_looked_for_before_it_is_sent_again(crew: Any, name: str) -> None:
    card = ready_to_finish(crew)
    crew.fault(name, route=PATCH, page_id=card)
    crew.desk.tick()
    [lost] = completions(crew, card)
    assert (lost["fault"], lost["outcome"]) == (name, "applied")
    crew.forget()
    crew.go_on(180)
    assert completions(crew, card) == [], "the GET has shown it: nothing to write"
    assert min(call["at"] for call in about(crew, card)) >= lost["at"] + Z
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


@pytest.mark.parametrize("name", ["ghost", "ghost_unavailable", "ghost_gateway"])
@pytest.mark.parametrize("seconds", [5, 40, 60])
def test_failures_B1_a_ghost_that_lands_within_the_wait_out_does_no_harm(crew: Any, name: str, seconds: float) -> None:
    card = crew.add()
    crew.fault(name, seconds, route=PATCH, page_id=card)
    crew.forget()
    crew.go_on(300, step=5)
    claim = next(call for call in about(crew, card) if call["route"] == PATCH)
    assert (claim["outcome"], claim["applied_at"]) == ("applied", claim["at"] + seconds)
    writes = [call for call in about(crew, card) if call["route"] == PATCH][1:]
    assert writes
    assert all(call["at"] >= claim["at"] + Z for call in writes)
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


@pytest.mark.parametrize("name", [*APPLIED, *NOT_APPLIED])
def test_failures_B1_a_comment_of_unknown_outcome_is_searched_for_before_it_is_posted_again(
    bench: Any, name: str
) -> None:
    page = bench.add()
    bench.fault(name=name, route=COMMENT)
    with pytest.raises(UnknownOutcome):
        bench.board.comment(page, "run-1/ended", "It is done.", again=False)
    bench.calls()
    for _ in range(2):
        bench.board.comment(page, "run-1/ended", "It is done.", again=True)
    found = bench.client.read("GET", "comments", query={"block_id": page})["results"]
    assert len(found) == 1
    assert bench.calls().get(COMMENT, 0) == (1 if name in NOT_APPLIED else 0)


@pytest.mark.parametrize("name", NOT_APPLIED)
def test_failures_B2_a_write_that_never_arrived_is_sent_again_after_the_wait_out(crew: Any, name: str) -> None:
    card = ready_to_finish(crew)
    crew.fault(name, route=PATCH, page_id=card)
    crew.desk.tick()
    [lost] = completions(crew, card)
    assert lost["outcome"] == "never"
    crew.forget()
    crew.go_on(180)
    first, *_ = about(crew, card)
    assert first["route"] == GET
    [sent] = completions(crew, card)
    assert sent["at"] >= lost["at"] + Z
    assert crew.shown(card) == "Complete"


# -- B3


def test_failures_B3_a_conflict_is_read_and_decided_again_and_not_forever(crew: Any) -> None:
    card = ready_to_finish(crew)
    crew.fault("conflict", route=PATCH, page_id=card, times=-1)
    crew.desk.tick()
    crew.go_on(60)
    calls = about(crew, card)
    routes = [call["route"] for call in calls]
    assert routes == [GET, PATCH] * (len(routes) // 2), "no PATCH without a GET before it"
    assert len(routes) // 2 <= 8, "ever more rarely"
    crew.clear()
    crew.go_on(300)
    assert crew.shown(card) == "Complete"
    assert crew.last_error(card) == ""


# -- B4


@pytest.mark.parametrize(
    ("told", "least", "most"),
    [
        ("1", 1, 1),
        ("60", 60, 60),
        ("460", 460, 460),
        ("none", 10, 10),
        ("0", 1, 1),
        ("-5", 10, 10),
        ("NaN", 10, 10),
        ("soon", 10, 10),
        ("Mon, 05 Jan 2026 09:10:00 GMT", 500, 600),
    ],
)
def test_failures_B4_retry_after_in_all_its_forms_pauses_the_credential(
    crew: Any, told: str, least: float, most: float
) -> None:
    crew.fault("rate_limited", told, route=PATCH)
    card = crew.add()
    crew.clock.advance(timedelta(seconds=30))  # the people's call has moved nothing of ours
    crew.board.open_cards()
    began = crew.clock.boot_seconds()
    with pytest.raises(Retryable) as raised:
        crew.board.write(card, CardValues(status=CardStatus.failed))
    assert least <= (raised.value.retry_after or 0) <= most
    if most > LONGEST_WAIT_SECONDS:
        with pytest.raises(Retryable):
            crew.board.read(card)
        assert crew.clock.boot_seconds() == began
        crew.clock.advance(timedelta(seconds=raised.value.retry_after - 1))
    crew.forget()
    crew.board.read(card)
    assert crew.clock.boot_seconds() - began >= least
    assert not any(call["early"] for call in crew.calls())


def test_failures_B4_the_workspace_limits_us_with_our_own_budget_unused(crew: Any) -> None:
    crew.fault("workspace_limited", 120)
    with pytest.raises(Retryable) as told:
        crew.board.open_cards()
    assert told.value.retry_after == 120
    crew.clock.advance(timedelta(seconds=80))
    crew.forget()
    with pytest.raises(Retryable, match="again in 40 s"):
        crew.board.open_cards()
    assert crew.calls() == []


def test_failures_B4_a_limit_told_to_one_thread_stops_all_and_other_processes(crew: Any) -> None:
    card = crew.add()
    crew.board.open_cards()
    crew.fault("rate_limited", 460)
    crew.forget()
    with pytest.raises(Retryable):
        crew.board.read(card)
    elsewhere = DatabaseLimiter(crew.board.client.connection.credential_key, crew.store, crew.clock)
    with pytest.raises(Retryable, match="again in 460 s"):
        elsewhere.acquire(urgent=True)
    refused: list[Exception] = []

    def call() -> None:
        try:
            crew.board.read(card)
        except Retryable as error:
            refused.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 8
    assert len(crew.calls()) == 1


def test_failures_B4_a_write_that_waited_for_a_limit_beyond_its_time_is_not_sent(crew: Any) -> None:
    """What was read before the limit says nothing any more after it: whoever claims must read again."""
    card = crew.add()
    crew.board.read(card)
    send_by = crew.clock.boot_seconds() + 10
    crew.limiter.pause(25, "Notion limits our requests")
    crew.forget()
    with pytest.raises(Retryable, match="not sent"):
        crew.board.write(card, CardValues(status=CardStatus.failed), send_by=send_by)
    assert crew.calls() == []


def test_failures_B4_renewals_and_endings_go_before_claims_and_queries(crew: Any) -> None:
    connection = NotionConnection(token=SecretStr("crew"), base_url=crew.server.url, calls_per_minute=60)
    limiter = DatabaseLimiter("a budget", crew.store, crew.clock, 60)
    client = NotionClient(connection, limiter, clock=crew.clock)
    board = NotionTaskBoard("team", crew.board.settings, client, clock=crew.clock)
    card = crew.add()
    board.open_cards()
    began = crew.clock.boot_seconds()

    def another_process() -> bool:
        """Takes a turn of the next half minute; False when none is left."""
        try:
            DatabaseLimiter("a budget", crew.store, FakeClock(crew.clock.now()), 60).acquire()
        except Retryable:
            return False
        return True

    assert sum(iter(another_process, False)) > 10
    with pytest.raises(Retryable, match="budget"):
        board.open_cards()
    began = crew.clock.boot_seconds()
    board.write(card, CardValues(claim_expires_at=crew.clock.now() + timedelta(minutes=15)))
    assert crew.clock.boot_seconds() - began < 1
    client.close()


def test_failures_B4_people_are_told_until_when_notion_limits_us(crew: Any) -> None:
    crew.fault("rate_limited", 460)
    crew.poll()
    assert crew.limiter.paused_until() == crew.clock.now() + timedelta(seconds=460)
    with crew.store.read() as uow:
        [pause] = uow.survey.pauses()
    assert pause.until == crew.clock.now() + timedelta(seconds=460)
    assert pause.reason.startswith("Notion limits our requests")


# -- B5


@pytest.mark.parametrize("name", ["internal_error", "unavailable", "bad_gateway", "unavailable_after", "edge_timeout"])
def test_failures_B5_a_write_answered_by_5xx_is_sent_once_and_a_read_is_tried_again(bench: Any, name: str) -> None:
    page = bench.add()
    bench.board.read(page)
    bench.fault(name=name, route=PATCH)
    bench.calls()
    with pytest.raises(UnknownOutcome):
        bench.board.write(page, CardValues(status=CardStatus.failed))
    assert bench.calls()[PATCH] == 1
    if name in NOT_APPLIED or name == "edge_timeout":
        bench.fault(name=name, route=GET)
        assert bench.board.read(page).id == page
        assert bench.calls()[GET] == 2


# -- B6


@pytest.mark.parametrize(
    ("name", "error"), [("unauthorized", Unauthorized), ("restricted", Unauthorized), ("unshared", Gone)]
)
def test_failures_B6_a_lost_permission_stops_the_polls_and_keeps_what_runs(
    crew: Any, name: str, error: type[Exception]
) -> None:
    card = crew.add()
    crew.poll()
    route = QUERY if name == "unshared" else "*"
    crew.fault(name, route=route, times=-1)
    crew.forget()
    assert isinstance(crew.poll(), error)
    assert crew.work("a result") == 1, "its effects are not held up"
    for _ in range(30):
        crew.clock.advance(timedelta(seconds=10))
        crew.desk.tick()
    if name != "unshared":
        assert crew.shown(card) == "InProgress"
        assert len(about(crew, card)) <= 12, "about once a minute"
    crew.clear()
    crew.go_on(600)
    assert crew.shown(card) == "Complete"
    assert "a result" in crew.board.read_body(card)
    assert crew.runs() == 1


# -- B7


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("delete_column", "RunId", "RunId"),
        ("delete_option", "Status/InProgress", "InProgress"),
    ],
)
def test_failures_B7_a_change_of_the_board_is_named_exactly_and_stops_claims(
    crew: Any, name: str, value: str, said: str
) -> None:
    running_card = crew.add("running")
    crew.poll()
    waiting = crew.add("waiting")
    crew.fault(name, value, route=QUERY, page_id=crew.board.key)
    crew.forget()
    found: SourceError | None = None
    for _ in range(40):
        crew.clock.advance(timedelta(seconds=10))
        found = crew.poll() or found
        if isinstance(found, Misconfigured):
            break
    assert isinstance(found, Misconfigured)
    assert said in str(found)
    assert crew.shown(waiting) == "Todo"
    assert len([call for call in crew.calls() if call["route"] == SCHEMA]) <= 3
    crew.work()
    crew.desk.tick()
    # Whoever deletes the option of a running card has taken the card away: that stays.
    assert crew.shown(running_card) == ("Complete" if name == "delete_column" else "")


@pytest.mark.parametrize(("name", "value"), [("rename_column", "RunId>Run"), ("rename_option", "Status/Todo>Next")])
def test_failures_B7_a_rename_does_no_harm(crew: Any, name: str, value: str) -> None:
    card = crew.add()
    crew.fault(name, value, route=PATCH, page_id=card)
    crew.go_on(60)
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


# -- B8


def test_failures_B8_a_row_that_a_stale_query_shows_in_todo_is_not_done_twice(crew: Any) -> None:
    card = crew.add()
    crew.clock.advance(timedelta(seconds=30))
    crew.poll()
    crew.work()
    crew.desk.tick()
    assert crew.shown(card) == "Complete"
    for seconds in range(10, 200, 10):
        crew.clock.advance(timedelta(seconds=10))
        crew.clear()
        crew.fault("query_lag", seconds + 15, times=-1)  # the same instant, before it was claimed
        [hint] = crew.board.open_cards()
        assert (hint.id, hint.status) == (card, CardStatus.todo)
        crew.poll()
        assert crew.work() == 0
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


def test_failures_B8_a_row_that_a_query_leaves_out_is_not_deleted(crew: Any) -> None:
    card = crew.add()
    crew.poll()
    crew.fault("query_missing", 300, times=-1)
    for _ in range(10):
        crew.clock.advance(timedelta(seconds=10))
        assert crew.board.open_cards() == []
        crew.poll()
    assert crew.work() == 1
    crew.desk.tick()
    assert crew.shown(card) == "Complete"


# -- B9


def test_failures_B9_rows_that_move_between_two_result_pages_are_seen_once(bench: Any) -> None:
    cards = [bench.add(f"card {number}", Priority={"select": {"name": "High"}}) for number in range(150)]
    rows: list[str] = []
    moved = threading.Event()

    class Moving(httpx.HTTPTransport):
        """Between the first result page and the second a person trashes two cards, makes one that was seen already
        the last of all, and adds one."""

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            if request.url.path.endswith("/query"):
                answer.read()
                rows.extend(page["id"] for page in answer.json()["results"])
            if request.url.path.endswith("/query") and not moved.is_set():
                moved.set()
                for card in cards[:2]:
                    bench.client.write("PATCH", f"pages/{card}", {"in_trash": True})
                bench.edit(cards[2], Priority={"select": {"name": "Low"}})
                bench.add("late")
            return answer

    client = NotionClient(bench.connection, NotedLimiter(), transport=Moving())
    board = NotionTaskBoard("team", BoardSettings(connection="local", board=bench.source), client)
    found = [card.id for card in board.open_cards()]
    assert rows.count(cards[2]) == 2, "the board has shown it twice"
    assert len(found) == len(set(found))
    assert set(cards[2:]) <= set(found)
    assert set(cards[2:]) <= {card.id for card in board.open_cards()}
    client.close()


def test_failures_B9_an_expired_cursor_begins_the_listing_anew(bench: Any) -> None:
    cards = {bench.add() for _ in range(120)}
    bench.board.open_cards()
    bench.fault(name="cursor_expired", route=QUERY, skip=1)
    bench.calls()
    assert {card.id for card in bench.board.open_cards()} == cards
    assert bench.calls()[QUERY] == 4
    bench.fault(name="cursor_expired", route=QUERY, times=-1)
    with pytest.raises(Retryable, match="begun anew"):
        bench.board.open_cards()
    assert bench.calls()[QUERY] == 4, "once more, not for ever"


# -- B10


def test_failures_B10_no_query_goes_by_times_of_edits(bench: Any) -> None:
    """Edit times are minutes, and a block written through the API does not move them: nothing is asked by them."""
    asked: list[dict[str, Any]] = []

    class Noted(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/query"):
                asked.append(json.loads(request.content))
            return super().handle_request(request)

    client = NotionClient(bench.connection, NotedLimiter(), transport=Noted())
    board = NotionTaskBoard("team", BoardSettings(connection="local", board=bench.source), client)
    page = bench.add("first")
    [card] = board.open_cards()
    bench.edit(page, Name={"title": [{"text": {"content": "second"}}]})
    [edited] = board.open_cards()
    assert edited.edited_at.second == 0
    assert (card.title, edited.title) == ("first", "second"), "both edits of one minute are seen"
    assert "last_edited_time" not in json.dumps(asked)
    client.close()


# -- B11


ODD = ["truncated", "wrong_json", "login_page"]


@pytest.mark.parametrize("name", ODD)
def test_failures_B11_an_answer_that_is_none_is_an_unknown_outcome_of_a_write(bench: Any, name: str) -> None:
    page = bench.add()
    bench.fault(name=name, route=PATCH)
    with pytest.raises(UnknownOutcome) as told:
        bench.board.write(page, CardValues(status=CardStatus.failed))
    assert not isinstance(told.value, Fatal)


@pytest.mark.parametrize("name", ODD)
def test_failures_B11_an_answer_that_is_none_is_no_empty_board_and_no_lost_page(bench: Any, name: str) -> None:
    page = bench.add()
    bench.board.open_cards()
    for call in (bench.board.open_cards, lambda: bench.board.read(page), bench.board.describe):
        bench.fault(name=name, times=3)
        with pytest.raises(Retryable):
            call()
        bench.forget()
    bench.fault(name=name)
    assert [card.id for card in bench.board.open_cards()] == [page], "the second try is as good as the first"


def test_failures_B11_an_answer_that_trickles_ends_with_the_deadline(make_bench: Callable[..., Any]) -> None:
    bench = make_bench(timeout_seconds=0.5)
    page = bench.add()
    bench.board.read(page)
    bench.fault(name="trickle", value=0.2, route=PATCH)
    clock = SystemClock()
    began = clock.boot_seconds()
    with pytest.raises(UnknownOutcome):
        bench.board.write(page, CardValues(status=CardStatus.failed))
    assert clock.boot_seconds() - began < 2


# -- B12


@pytest.fixture
def untrusted(tmp_path: Path) -> Iterator[str]:
    """A TLS server whose certificate nobody has signed."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
                context.wrap_socket(peer, server_side=True).close()
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"https://localhost:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def refused(url: str, **more: Any) -> tuple[SourceError, SourceError]:
    """What a read and a write meet there."""
    connection = NotionConnection(token=SecretStr("ntn_secret"), base_url=url, timeout_seconds=5, **more)
    client = NotionClient(connection, NotedLimiter())
    errors = []
    for call in (lambda: client.whoami(), lambda: client.write("PATCH", "pages/p1", {})):
        with pytest.raises(SourceError) as told:
            call()
        errors.append(told.value)
    client.close()
    return errors[0], errors[1]


def test_failures_B12_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for error in refused("https://notion.invalid"):
        assert type(error) is Retryable
        assert "nothing was sent" in str(error)
        assert "notion.invalid" in str(error)


def test_failures_B12_a_certificate_that_cannot_be_trusted(untrusted: str) -> None:
    for error in refused(untrusted):
        assert type(error) is Retryable
        assert "certificate" in str(error).lower()
        assert "nothing was sent" in str(error)


def test_failures_B12_a_proxy_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    for error in refused("https://notion.invalid"):
        assert type(error) is Retryable
        assert "nothing was sent" in str(error)


def test_failures_B12_an_outage_is_met_with_few_extra_calls(odd: OddServer, odd_client: NotionClient) -> None:
    odd.answers = [http_answer(503, {"object": "error", "code": "service_unavailable", "message": "Later."})]
    for _ in range(300):
        with pytest.raises(Retryable):
            odd_client.whoami()
    assert 300 < len(odd.requests) <= 300 * 1.1 + 10


# -- B13


def test_failures_B13_a_retired_version_is_told_with_its_cure(bench: Any) -> None:
    bench.fault(name="version_retired", times=-1)
    with pytest.raises(Misconfigured) as told:
        bench.board.open_cards()
    assert "2027-01-01" in str(told.value)
    assert "`version:`" in str(told.value)
    assert bench.calls() == {SCHEMA: 1} or sum(bench.calls().values()) <= 1


def test_failures_B13_a_column_whose_type_was_changed_is_named(bench: Any) -> None:
    bench.add()
    bench.board.open_cards()
    bench.alter(RunId={"number": {}})
    with pytest.raises(Misconfigured) as told:
        bench.board.open_cards()
    assert "RunId" in str(told.value)


# -- B14


def test_failures_B14_texts_beyond_every_limit_are_chunked_and_cut_visibly(bench: Any) -> None:
    page = bench.add()
    sizes: list[tuple[int, int]] = []
    segments: list[str] = []

    class Measured(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PATCH" and request.url.path.endswith("/children"):
                sizes.append((len(request.content), len(json.loads(request.content)["children"])))
            if request.method == "POST" and request.url.path.endswith("/comments"):
                segments.extend(part["text"]["content"] for part in json.loads(request.content)["rich_text"])
            return super().handle_request(request)

    client = NotionClient(bench.connection, NotedLimiter(), transport=Measured())
    board = NotionTaskBoard("team", BoardSettings(connection="local", board=bench.source), client)
    result = "\n\n".join(f"{number} " + "😀é" * 1_500 for number in range(1_300))
    board.write_result(page, "m", result, again=False)
    assert all(size <= 500 * 1024 and blocks <= 100 for size, blocks in sizes)
    assert sum(blocks for _, blocks in sizes) <= 1_000
    shown = board.read_body(page)
    assert "cut" in shown[-400:] or "left out" in shown[-400:]
    board.comment(page, "m", "😀" * 20_000, again=False)
    assert 1 < len(segments) <= 100
    assert all(units(part) <= 2_000 for part in segments)
    assert "cut" in "".join(segments)[-100:]
    client.close()


def test_failures_B14_a_refused_text_does_not_keep_the_ending_back(crew: Any) -> None:
    card = crew.add()
    crew.poll()
    crew.work("a long result")
    crew.fault("endpoint_removed", route="PATCH /v1/blocks/{block_id}/children", times=-1)
    crew.desk.tick()
    crew.go_on(60)
    assert crew.shown(card) == "Complete"


# -- B15


def skewed(tmp_path: Path, ahead: timedelta) -> Iterator[NotionTaskBoard]:
    ours, theirs = FakeClock(), FakeClock()
    theirs.step_wall(ahead)
    with running(tmp_path / "board.db", clock=theirs) as server:
        connection = NotionConnection(base_url=server.url)
        client = NotionClient(connection, NotedLimiter(), clock=ours)
        made = create_board(client, BoardSettings(connection="c", board="x"), title="Team")
        settings = BoardSettings(connection="c", board=made.located.data_source_id)
        board = NotionTaskBoard("team", settings, client, clock=ours)
        for _ in range(5):
            board.open_cards()
        yield board
        client.close()


@pytest.mark.parametrize(("ahead", "least", "most"), [(0, 0, 0), (40, 39, 40), (-40, -40, -39), (8, 7, 8)])
def test_failures_B15_the_other_clock_is_compared_by_the_dates_of_answers(
    ahead: int, least: int, most: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hermes.notion"):
        for board in skewed(tmp_path, timedelta(seconds=ahead)):
            assert board.skew is not None
            assert timedelta(seconds=least) <= board.skew <= timedelta(seconds=most)
    said = [record.getMessage() for record in caplog.records if "our clock" in record.getMessage()]
    assert len(said) == (1 if ahead else 0), "told once, not at every call"
    if ahead:
        assert ("behind" if ahead > 0 else "ahead of") in said[0]


def test_failures_B15_neither_a_slow_answer_nor_one_odd_date_is_a_wrong_clock(odd: OddServer) -> None:
    now = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    clock = FakeClock(now)
    client = NotionClient(NotionConnection(base_url=odd.url), NotedLimiter(), clock=clock)
    user = {"object": "user", "id": "u"}
    assert client.skew is None

    def slow(peer: socket.socket) -> None:
        clock.advance(timedelta(seconds=20))  # written at once, and twenty seconds under way
        peer.sendall(http_answer(200, user, date="Mon, 05 Jan 2026 09:00:00 GMT"))

    odd.answers = [slow, http_answer(200, user)]
    client.whoami()
    assert client.skew == timedelta(0)
    odd.answers = [http_answer(200, user, date="Mon, 05 Jan 2026 11:00:00 GMT")]
    client.whoami()
    assert client.skew == timedelta(0)
    odd.answers = [http_answer(200, user, date="nonsense")]
    client.whoami()
    assert client.skew == timedelta(0)
    client.close()


@pytest.mark.parametrize(("seconds", "level"), [(0, "ok"), (12, "warn"), (45, "fail")])
def test_failures_B15_doctor_shows_it(seconds: int, level: str, tmp_path: Path) -> None:
    with running(tmp_path / "board.db", clock=Ahead(timedelta(seconds=seconds))) as server:
        client = NotionClient(NotionConnection(base_url=server.url), NotedLimiter())
        made = create_board(client, BoardSettings(connection="c", board="x"), title="Team")
        client.close()
        config = tmp_path / "config"
        (config / "polls").mkdir(parents=True)
        content = {
            "connections": {"notion": {"type": "notion", "base_url": server.url}},
            "boards": {"team": {"connection": "notion", "board": made.located.data_source_id}},
        }
        (config / "hermes.yaml").write_text(json.dumps(content))
        done = CliRunner().invoke(build(), ["--config", str(config), "doctor", "--json"])
    [clock] = [check for check in json.loads(done.stdout)["checks"] if check["about"] == "clock"]
    assert clock["level"] == level
    if seconds:
        assert "behind" in clock["what"]
        assert "NTP" in clock["cure"]


class Ahead(SystemClock):
    """Real time, and so much more."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return super().now() + self._by

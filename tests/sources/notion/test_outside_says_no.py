"""N1 to N8 of SCENARIOS.md, through the real client over HTTP: what the outside says when it says no."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from hermes.app import App
from hermes.cli.commands import build
from hermes.errors import Fatal, Retryable
from hermes.limits import Breaker
from hermes.testing.clock import FakeClock
from hermes.testing.limiter import NotedLimiter
from hermes.testing.trial import free_port
from sources.board import BoardServer, running
from sources.notion import BoardSettings, NotionClient, NotionConnection, NotionTaskBoard, open_board
from sources.notion.init import create_board

PATCH = "PATCH /v1/pages/{page_id}"
GET = "GET /v1/pages/{page_id}"
QUERY = "POST /v1/data_sources/{data_source_id}/query"


# -- N1


@pytest.mark.parametrize("name", ["rate_limited", "workspace_limited", "overloaded"])
def test_N1_a_limit_pauses_everybody_for_the_whole_time_and_no_card_fails(crew: Any, name: str) -> None:
    running_card = crew.add("running")
    crew.poll()
    waiting = crew.add("waiting")
    crew.work()
    crew.forget()
    crew.fault(name, 460, route=PATCH)
    limited_at = crew.clock.now()
    crew.desk.tick()  # the ending's PATCH is told to stop
    while crew.clock.now() < limited_at + timedelta(seconds=420):  # for the last half minute callers wait themselves
        crew.clock.advance(timedelta(seconds=10))
        crew.poll()
    told, *after = crew.calls()[1:]
    assert told["fault"] == name
    assert after == []
    assert crew.shown(running_card) == "InProgress"
    assert crew.shown(waiting) == "Todo"
    assert crew.limiter.paused_until() is not None
    assert "again in" in str(crew.limiter.pause_reason)
    crew.forget()
    crew.go_on(120)
    assert min(call["at"] for call in crew.calls()) >= limited_at.timestamp() + 460
    assert (crew.shown(running_card), crew.shown(waiting)) == ("Complete", "Complete")
    assert crew.last_error(running_card) == crew.last_error(waiting) == ""
    assert not any(call["early"] for call in crew.calls())
    assert crew.runs() == 2


def test_N1_the_lease_of_a_running_card_outlives_a_limit(crew: Any) -> None:
    card = crew.add()
    crew.poll()
    claimed = crew.board.read(card).claim_expires_at
    crew.fault("rate_limited", 460)
    crew.clock.advance(timedelta(minutes=9))
    crew.poll()
    for _ in range(50):
        crew.clock.advance(timedelta(seconds=10))
        crew.poll()
    kept = crew.board.read(card)
    assert kept.claim_expires_at > claimed
    assert kept.claim_expires_at > crew.clock.now()
    assert kept.run_id is not None
    assert crew.runs() == 1


# -- N2


@pytest.mark.parametrize("name", ["conflict", "conflict_400"])
def test_N2_conflicts_on_claim_and_completion_are_read_and_decided_again(crew: Any, name: str) -> None:
    card = crew.add()
    crew.fault(name, route=PATCH, page_id=card)
    crew.poll()
    assert crew.shown(card) == "Todo"
    crew.go_on(30, step=5)
    assert crew.runs() == 1
    assert crew.shown(card) == "Complete"
    other = crew.add("other")
    crew.poll()
    crew.fault(name, route=PATCH, page_id=other)
    crew.forget()
    crew.work()
    crew.desk.tick()
    crew.go_on(30, step=5)
    routes = [call["route"] for call in crew.calls() if other in call["objects"]]
    assert routes[:4] == [GET, PATCH, GET, PATCH], "read again before it is written again"
    assert crew.shown(other) == "Complete"


def test_N2_a_conflict_that_never_ends_is_bounded(crew: Any) -> None:
    card = crew.add()
    crew.fault("conflict", route=PATCH, page_id=card, times=-1)
    crew.forget()
    crew.go_on(600)
    tries = [call for call in crew.calls() if call["route"] == PATCH]
    assert 3 <= len(tries) <= 30
    assert crew.last_error(card) == ""
    crew.clear()
    crew.go_on(600)
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


# -- N3


@pytest.mark.parametrize("name", ["bad_gateway_after", "edge_timeout", "unavailable_after", "drop", "truncated"])
def test_N3_a_claim_that_was_applied_and_not_answered_is_found_by_its_run_id(crew: Any, name: str) -> None:
    card = crew.add()
    crew.fault(name, route=PATCH, page_id=card)
    crew.forget()
    crew.poll()
    claim = next(call for call in crew.calls() if call["route"] == PATCH)
    assert (claim["fault"], claim["outcome"]) == (name, "applied")
    crew.go_on(90)
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1
    claims = [call for call in crew.calls() if call["route"] == PATCH and "InProgress" in json.dumps(call["wrote"])]
    assert len(claims) <= 1


# -- N4


@pytest.mark.parametrize("name", ["bad_gateway", "edge_timeout", "edge_block", "login_page"])
def test_N4_a_page_of_html_is_told_shortly_and_dumped_nowhere(crew: Any, name: str) -> None:
    card = crew.add()
    crew.fault(name, times=-1)
    error = crew.poll()
    assert type(error) is Retryable
    said = str(error)
    assert len(said) < 300
    assert "<" not in said
    assert "padding" not in said
    if name == "edge_block":
        assert "nothing to do with" in said
        assert "capability" not in said
    crew.go_on(60)
    crew.clear()
    crew.go_on(180)
    assert crew.shown(card) == "Complete"
    assert crew.last_error(card) == ""
    page = crew.people.read("GET", f"pages/{card}")
    assert "padding" not in json.dumps(page)


# -- N5


def test_N5_three_minutes_without_a_connection_are_survived(tmp_path: Path) -> None:
    port, clock = free_port(), FakeClock()
    connection = NotionConnection(base_url=f"http://127.0.0.1:{port}", timeout_seconds=3)
    client = NotionClient(connection, NotedLimiter(), clock=clock, breaker=Breaker(clock))
    with running(tmp_path / "board.db", port=port, clock=clock):
        made = create_board(client, BoardSettings(connection="c", board="x"), title="Team")
    board = NotionTaskBoard(
        "team", BoardSettings(connection="c", board=made.located.data_source_id), client, clock=clock
    )
    ends_at = clock.now() + timedelta(minutes=3)
    tries = 0
    while clock.now() < ends_at:
        with pytest.raises(Retryable) as told:
            board.open_cards()
        tries += 1
        assert "nothing was sent" in str(told.value)
        clock.advance(timedelta(seconds=max(1.0, told.value.retry_after or 0)))
    assert tries > 5
    with running(tmp_path / "board.db", port=port, clock=clock):
        clock.advance(timedelta(seconds=30))
        assert board.open_cards() == []
    client.close()


def test_N5_running_work_goes_on_while_the_board_is_away(crew: Any) -> None:
    card = crew.add()
    crew.poll()
    crew.fault("lost", times=-1)
    for _ in range(18):
        crew.clock.advance(timedelta(seconds=10))
        assert crew.poll() is not None
    assert crew.work() == 1, "its worker had the run all the time"
    crew.desk.tick()
    assert crew.shown(card) == "InProgress"
    crew.clear()
    crew.go_on(400)
    assert crew.shown(card) == "Complete"
    assert crew.runs() == 1


# -- N6


class Place:
    """A configuration whose board is behind a connection of `type: notion`, and the command line on it."""

    def __init__(self, folder: Path, server: BoardServer, board: str) -> None:
        self.config = folder / "config"
        self.server = server
        (self.config / "polls").mkdir(parents=True)
        content = {
            "connections": {"notion": {"type": "notion", "base_url": server.url, "token": "${N6_TOKEN}"}},
            "boards": {"team": {"connection": "notion", "board": board}},
            "channels": {"ops": "json://127.0.0.1:9/"},
            "log": {"level": "error"},
        }
        (self.config / "hermes.yaml").write_text(json.dumps(content))
        poll = {
            "poll": "tasks",
            "source": {"type": "board", "board": "team"},
            "schedule": {"every": "1h"},
            "action": {"type": "notify", "channels": ["ops"]},
            "stop": {"max_consecutive_failures": 3},
        }
        (self.config / "polls" / "tasks.yaml").write_text(json.dumps(poll))

    def call(self, *words: str) -> Any:
        return CliRunner().invoke(build(), ["--config", str(self.config), *words])

    def round(self) -> None:
        self.call("run-once", "tasks", "--wait", "0")

    def poll(self) -> dict[str, Any]:
        [poll] = json.loads(self.call("polls", "list", "--json").stdout)["polls"]
        return dict(poll)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[BoardServer, dict[str, Any]]]:
    monkeypatch.setenv("N6_TOKEN", "ntn_very_secret_token")
    with running(tmp_path / "board.db") as server:
        client = NotionClient(NotionConnection(token=SecretStr("people"), base_url=server.url), NotedLimiter())
        made = create_board(client, BoardSettings(connection="c", board="x"), title="Team").located
        client.close()
        yield server, {"database": made.database_id, "data_source": made.data_source_id}


CAUSES = {
    "token revoked": ("unauthorized", "API token is invalid", "Make a new one"),
    "page not shared": ("unshared", "nothing with the id", "Connections"),
    "capability lacking": ("restricted", "Insufficient permissions", "capability"),
    "version retired": ("version_retired", "does not speak the API version", "Set `version:`"),
}


@pytest.mark.parametrize("case", CAUSES)
def test_N6_a_poll_that_only_a_person_can_cure_says_so_and_is_disabled(
    case: str, tmp_path: Path, served: tuple[BoardServer, dict[str, Any]]
) -> None:
    server, ids = served
    place = Place(tmp_path, server, ids["data_source"])
    name, cause, cure = CAUSES[case]
    fault = {"name": name, "times": -1}
    if name == "unshared":
        fault["route"] = "GET /v1/data_sources/{data_source_id}"
    httpx.post(f"{server.url}/_board/faults", json=fault, trust_env=False).raise_for_status()
    place.round()
    poll = place.poll()
    assert poll["health"] == "failing"
    for words in (("polls", "list"), ("polls", "show", "tasks")):
        said = place.call(*words).stdout
        assert cause in " ".join(said.split())
        assert "very_secret" not in said
    assert cure in " ".join(place.call("polls", "show", "tasks").stdout.split())
    place.round()
    place.round()
    assert place.poll()["health"] == "disabled"
    said = " ".join(place.call("polls", "show", "tasks").stdout.split())
    assert "polls resume tasks" in said
    assert cause in said
    assert "No poll was due" in place.call("run-once", "--wait", "0").stdout


def test_N6_a_database_s_id_is_as_good_as_its_data_source_s(
    tmp_path: Path, served: tuple[BoardServer, dict[str, Any]]
) -> None:
    server, ids = served
    place = Place(tmp_path, server, ids["database"])
    place.round()
    assert place.poll()["health"] == "ok"


# -- N7


@pytest.fixture
def many(server: BoardServer, make_bench: Callable[..., Any]) -> Iterator[tuple[Any, list[NotionTaskBoard], Breaker]]:
    """Ten boards of one connection, as ten polls have them."""
    bench, clock = make_bench(), FakeClock()
    breaker = Breaker(clock)
    settings = BoardSettings(connection="local", board=bench.source)
    boards = [
        open_board(f"b{n}", settings, bench.connection, NotedLimiter(), clock=clock, breaker=breaker) for n in range(10)
    ]
    bench.clock = clock
    yield bench, boards, breaker
    for board in boards:
        board.close()


def ask(board: NotionTaskBoard) -> Exception | None:
    try:
        board.open_cards()
    except (Fatal, Retryable) as error:
        return error
    return None


def test_N7_a_removed_endpoint_is_asked_three_times_by_all_polls_together(many: Any) -> None:
    bench, boards, breaker = many
    bench.fault(name="endpoint_removed", route=QUERY, times=-1)
    bench.calls()
    for _ in range(20):
        for board in boards:
            error = ask(board)
            assert isinstance(error, Fatal)
            assert "does not have this endpoint" in str(error)
        bench.clock.advance(timedelta(hours=1))
    assert bench.calls()[QUERY] == 3
    assert "until the configuration changes" in str(ask(boards[0]))
    assert list(breaker.shut()) == ["POST data_sources/{id}/query"]


def test_N7_the_configuration_changes_and_it_is_asked_again(many: Any) -> None:
    bench, boards, breaker = many
    bench.fault(name="endpoint_removed", route=QUERY, times=-1)
    assert all(ask(board) for board in boards)
    bench.forget()
    assert all(ask(board) for board in boards), "the endpoint is back, and nobody has said so"
    breaker.reset()
    assert [ask(board) for board in boards] == [None] * 10


def test_N7_one_odd_answer_closes_nothing(many: Any) -> None:
    bench, boards, _ = many
    bench.fault(name="endpoint_removed", route=QUERY)
    assert isinstance(ask(boards[0]), Fatal)
    assert [ask(board) for board in boards] == [None] * 10


def test_N7_other_endpoints_are_not_given_up_with_it(many: Any) -> None:
    bench, boards, _ = many
    page = bench.add()
    bench.fault(name="endpoint_removed", route=QUERY, times=-1)
    assert all(ask(board) for board in boards)
    assert boards[0].read(page).title == "A card"


def test_N7_temporary_failures_open_it_for_a_while_and_one_call_tries(many: Any) -> None:
    bench, boards, _ = many
    bench.fault(name="unavailable", route=QUERY, times=-1)
    for _ in range(10):
        for board in boards:
            ask(board)
        bench.clock.advance(timedelta(seconds=31))
    ask(boards[0])
    bench.calls()
    error = ask(boards[1])
    assert isinstance(error, Retryable)
    assert "nothing was sent" in str(error)
    assert QUERY not in bench.calls()
    sent = 0
    for _ in range(60):
        bench.clock.advance(timedelta(seconds=10))
        for board in boards:
            ask(board)
        sent += bench.calls().get(QUERY, 0)
    assert sent < 60, "600 tries in ten minutes"
    bench.forget()
    bench.clock.advance(timedelta(seconds=31))
    assert [ask(board) for board in boards] == [None] * 10


def test_N7_an_edit_of_the_configuration_resets_every_breaker(
    tmp_path: Path, served: tuple[BoardServer, dict[str, Any]]
) -> None:
    server, ids = served
    place = Place(tmp_path, server, ids["data_source"])
    app = App.load(place.config)
    app.upgrade()
    try:
        board = app.reach("team")
        fault = {"name": "endpoint_removed", "route": QUERY, "times": 3}
        httpx.post(f"{server.url}/_board/faults", json=fault, trust_env=False).raise_for_status()
        assert [type(ask(board)).__name__ for _ in range(4)] == ["EndpointGone"] * 4
        app.use(app.configuration)
        assert ask(board) is None
    finally:
        app.close()


# -- N8


class Noted(httpx.HTTPTransport):
    """Keeps what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/query"):
            self.bodies.append(json.loads(request.content))
        return super().handle_request(request)


def test_N8_more_than_a_hundred_rows_are_paged_and_a_null_cursor_is_left_out(bench: Any) -> None:
    titles = {f"card {number}" for number in range(230)}
    for title in titles:
        bench.add(title)
    noted = Noted()
    client = NotionClient(bench.connection, NotedLimiter(), transport=noted)
    board = NotionTaskBoard("team", BoardSettings(connection="local", board=bench.source), client)
    assert {card.title for card in board.open_cards()} == titles
    client.close()
    assert len(noted.bodies) == 3
    assert "start_cursor" not in noted.bodies[0]
    assert all(isinstance(body["start_cursor"], str) for body in noted.bodies[1:])

"""Starting a run under a key, reading, stopping and resuming it over HTTP."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from hermes.model.run import RunState

pytestmark = pytest.mark.sqlite_is_enough


def code(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["code"])


def test_a_key_is_one_run_and_a_repeat_answers_with_the_first(served: Any, key: str) -> None:
    first = served.start(key)
    assert first.status_code == 201
    assert first.headers["Location"] == "/api/v1/runs/order-42"
    served.work()
    again = served.start(key, order="another")
    assert again.status_code == 200
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["state"] == "waiting"
    assert served.http.get(f"{served.root}{again.headers['Location']}").status_code == 401
    assert served.run(first.json()["id"]).args == {"order": "42"}
    assert served.run(first.json()["id"]).key == "run:default:order-42"


def test_parallel_starts_of_one_key_are_one_run(served: Any, key: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: served.start(key), range(100)))
    assert sorted(answer.status_code for answer in answers) == [200] * 99 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_run_is_told_whole(served: Any, key: str) -> None:
    served.start(key)
    served.work()
    told = served.ask("GET", "/runs/order-42", key).json()
    assert (told["state"], told["key"], told["namespace"], told["function"]) == (
        "waiting",
        "order-42",
        "default",
        "api_tasks.pay",
    )
    (wait,) = told["waits"]
    assert (wait["what"], wait["name"], wait["about"]) == ("event", "PAID", "42")
    assert told["timeline"] is None
    served.ask("POST", "/fire/PAID/42", key, {"amount": 7})
    served.work()
    told = served.ask("GET", "/runs/order-42?timeline=summary", key).json()
    assert (told["state"], told["result"], told["waits"]) == ("succeeded", 7, [])
    assert [entry["what"] for entry in told["timeline"]][-1] == "succeeded"
    assert code(served.ask("GET", "/runs/order-42?timeline=whole", key), 422) == "does_not_fit"


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("order/42", "order%2F42"),
        ("order/42", "order/42"),
        ("a/cancel", "a/cancel"),
        ("a b?c#d%", "a%20b%3Fc%23d%25"),
        ("bestellung-ü", "bestellung-%C3%BC"),
    ],
)
def test_a_key_may_hold_what_a_path_may_not(served: Any, key: str, run: str, path: str) -> None:
    started = served.start(key, run)
    assert served.ask("GET", f"/runs/{path}", key).json()["id"] == started.json()["id"]
    assert served.ask("GET", started.headers["Location"].removeprefix("/api/v1"), key).json()["key"] == run
    assert served.ask("POST", f"/runs/{path}/cancel", key).json()["changed"] is True


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("body", "status", "expected", "at"),
    [
        ({"function": "api_tasks.none", "key": "x"}, 422, "unknown_function", None),
        ({"function": "api_tasks.tell_the_bank", "key": "x"}, 422, "unknown_function", None),
        ({"function": "api_tasks.pay", "key": "x"}, 422, "does_not_fit", None),
        ({"function": "api_tasks.pay", "key": "x", "args": {"order": []}}, 422, "does_not_fit", "order"),
        ({"function": "api_tasks.pay", "key": "x", "args": {"order": "1", "most": "a"}}, 422, "does_not_fit", "most"),
        ({"function": "api_tasks.pay", "key": "x", "args": {"order": "1", "more": 1}}, 422, "does_not_fit", None),
        ({"function": "api_tasks.pay", "key": " x", "args": {"order": "1"}}, 422, "not_a_key", None),
        ({"function": "api_tasks.pay", "key": "", "args": {"order": "1"}}, 422, "not_a_key", None),
        ({"function": "api_tasks.pay", "key": "x" * 600, "args": {"order": "1"}}, 422, "not_a_key", None),
        ({"function": "api_tasks.pay", "key": "x", "args": {"order": "1"}, "at": "soon"}, 422, "does_not_fit", "at"),
        ({"function": "api_tasks.pay", "key": "x", "at": "2027-01-01T09:00:00"}, 422, "does_not_fit", "at"),
        ({"function": "api_tasks.pay", "key": "x", "kind": "card"}, 422, "does_not_fit", "kind"),
        ({"key": "x"}, 422, "does_not_fit", "function"),
        ([], 422, "does_not_fit", ""),
        ("{", 400, "bad_json", None),
        (b"", 400, "bad_json", None),
    ],
)
def test_what_cannot_be_started_is_refused_with_its_place(
    served: Any, key: str, body: Any, status: int, expected: str, at: str | None
) -> None:
    answer = served.ask("POST", "/runs", key, body)
    assert code(answer, status) == expected
    if at is not None:
        assert [place["at"] for place in answer.json()["error"]["places"]] == [at]
    assert "api_tasks.watch" not in answer.text, "nobody is told what there is"
    with served.app.store.read() as unit:
        assert unit.runs.list() == []


@pytest.mark.sqlite_is_enough
def test_a_key_of_another_function_is_refused(served: Any, key: str) -> None:
    first = served.start(key).json()
    assert code(served.start(key, function="api_tasks.watch"), 409) == "key_of_another"
    run = served.run(first["id"])
    assert (run.function, run.duplicates) == ("api_tasks.pay", 0)


def test_a_run_may_begin_later(served: Any, key: str) -> None:
    at = served.now() + timedelta(hours=1)
    asked = {"function": "api_tasks.pay", "key": "later", "args": {"order": "42"}, "at": at.isoformat()}
    assert served.ask("POST", "/runs", key, asked).status_code == 201
    served.work()
    told = served.ask("GET", "/runs/later", key).json()
    assert (told["state"], told["started_at"]) == ("ready", None)


def test_a_cancelled_run_stays_cancelled_until_it_is_resumed(served: Any, key: str) -> None:
    run_id = served.start(key).json()["id"]
    served.work()
    first = served.ask("POST", "/runs/order-42/cancel", key, {"reason": "the customer left"}).json()
    assert (first["changed"], first["run"]["state"], first["run"]["reason"]) == (True, "cancelled", "the customer left")
    again = served.ask("POST", "/runs/order-42/cancel", key)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert again.json()["run"] == first["run"]
    resumed = served.ask("POST", "/runs/order-42/resume", key).json()
    assert (resumed["changed"], resumed["run"]["state"]) == (True, "ready")
    assert served.ask("POST", "/runs/order-42/resume", key, {}).json()["changed"] is False
    served.work()
    served.ask("POST", "/fire/PAID/42", key, {"amount": 7})
    served.work()
    assert served.run(run_id).state is RunState.succeeded
    assert code(served.ask("POST", "/runs/order-42/cancel", key), 409) == "over"
    assert code(served.ask("POST", "/runs/order-42/resume", key), 409) == "over"
    assert code(served.ask("POST", "/runs/none/resume", key), 404) == "no_such_run"


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("cancel", {"reason": ""}),
        ("cancel", {"reason": 7}),
        ("cancel", {"why": "x"}),
        ("cancel", []),
        ("resume", {"decision": "maybe"}),
        ("resume", {"result": 1}),
        ("resume", {"decision": "again", "result": 1}),
    ],
)
def test_an_order_that_does_not_fit_changes_nothing(served: Any, key: str, action: str, body: Any) -> None:
    run_id = served.start(key).json()["id"]
    served.work()
    assert code(served.ask("POST", f"/runs/order-42/{action}", key, body), 422) == "does_not_fit"
    assert served.run(run_id).state is RunState.waiting


def test_a_step_in_doubt_needs_a_decision(served: Any, key: str) -> None:
    run_id = served.ask("POST", "/runs", key, {"function": "api_tasks.doubt", "key": "d"}).json()["id"]
    served.work()
    assert served.run(run_id).state is RunState.parked
    refused = served.ask("POST", "/runs/d/resume", key)
    assert code(refused, 409) == "needs_decision"
    assert "tell_the_bank" in refused.text
    assert served.ask("POST", "/runs/d/resume", key, {"decision": "done", "result": "paid"}).json()["changed"]
    served.work()
    assert served.ask("GET", "/runs/d", key).json()["result"] == "paid"


def test_an_error_is_short_and_its_trace_for_those_who_may(served: Any, key: str) -> None:
    debugging = served.key("runs:read", "runs:debug", name="debugging")
    asked = {"function": "api_tasks.fail", "key": "f", "args": {"text": "it broke: token=hunter2-and-more"}}
    run_id = served.ask("POST", "/runs", key, asked).json()["id"]
    for _ in range(20):
        served.work()
        served.clock.advance(timedelta(days=1))
        with served.app.store.write() as unit:  # due now, by whichever clock the database has
            unit.runs.hold(run_id, "for a moment")
            unit.runs.release_hold(run_id, unit.now)
    told = served.ask("GET", "/runs/f", key).json()
    assert told["state"] == "failed"
    assert (told["error"]["kind"], told["error"]["trace"]) == ("RuntimeError", None)
    assert "it broke" in told["error"]["message"]
    assert "hunter2" not in json.dumps(told["error"])
    trace = served.ask("GET", "/runs/f", debugging).json()["error"]["trace"]
    assert "Traceback" in trace
    assert "hunter2" not in trace


@pytest.mark.sqlite_is_enough
def test_runs_that_nobody_started_by_a_key_are_not_there(served: Any, key: str) -> None:
    from hermes.model.run import NewRun, RunKind

    with served.app.store.write() as unit:
        unit.runs.enqueue(NewRun("page:1:tasks", RunKind.card, "api_tasks.watch", {"order": "1"}))
    assert code(served.ask("GET", "/runs/page:1:tasks", key), 404) == "no_such_run"
    assert code(served.ask("POST", "/runs/page:1:tasks/cancel", key), 404) == "no_such_run"

"""Who may do what, where; and that a key's secret is nowhere but with its holder."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
import structlog
from sqlalchemy import text

from hermes.api.authentication import Uses
from hermes.keys import NotMade, create_key, keys, revoke_key
from hermes.model.api_key import Scope, make_key_text, read_key_text
from hermes.telemetry.logs import configure_logs
from hermes.telemetry.redaction import Redactor
from hermes.testing.clock import FakeClock

EVERYTHING = (
    ("POST", "/fire/MOVED/1", Scope.fire),
    ("POST", "/runs", Scope.runs_write),
    ("GET", "/runs/x", Scope.runs_read),
    ("POST", "/runs/x/cancel", Scope.runs_write),
    ("POST", "/runs/x/resume", Scope.runs_write),
)


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


def test_no_key_an_unknown_one_a_wrong_one_and_a_revoked_one_get_the_same_answer(served: Any, key: str) -> None:
    revoked = served.key(name="old")
    assert served.ask("POST", "/fire/MOVED/1", revoked).status_code == 202
    assert revoke_key(served.app, "old") is not None
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    presented = [None, make_key_text(), wrong, revoked, "hp_x", "Bearer", "ü" * 10, key + " x"]
    for method, path, _ in EVERYTHING:
        answers = [
            served.ask(method, path, headers={} if given is None else {b"Authorization": f"Bearer {given}".encode()})
            for given in presented
        ]
        answers.append(served.ask(method, path, headers={"Authorization": f"Basic {key}"}))
        assert {answer.status_code for answer in answers} == {401}
        assert len({answer.text for answer in answers}) == 1
        assert {answer.headers["WWW-Authenticate"] for answer in answers} == {"Bearer"}
    assert len(served.events()) == 1


@pytest.mark.sqlite_is_enough
def test_two_authorizations_are_none(served: Any, key: str) -> None:
    twice = [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")]
    assert served.http.post("/fire/MOVED/1", headers=twice).status_code == 401


@pytest.mark.sqlite_is_enough
def test_a_key_opens_what_its_scopes_say(served: Any) -> None:
    for scope in (Scope.fire, Scope.runs_read, Scope.runs_write):
        key = served.key(scope.value, name=scope.value)
        for method, path, needed in EVERYTHING:
            answer = served.ask(method, path, key)
            assert (answer.status_code == 403) == (needed is not scope), (scope, path)
            assert needed is scope or code(answer) == "no_scope"


def test_a_key_of_one_namespace_does_nothing_in_another(served: Any) -> None:
    ours, theirs = served.key(name="ours", namespace="ours"), served.key(name="theirs", namespace="theirs")
    run_id = served.start(theirs, "order").json()["id"]
    served.work()
    there = {"Hermes-Namespace": "theirs"}
    for method, path, _ in (*EVERYTHING, ("POST", "/fire/PAID/42", None)):
        answer = served.ask(method, path, ours, headers=there)
        assert (answer.status_code, code(answer)) == (403, "foreign_namespace")
    assert served.ask("POST", "/fire/PAID/42", ours, {"amount": 7}).json()["status"] == "kept"
    assert served.ask("GET", "/runs/order", ours).status_code == 404
    assert served.ask("POST", "/runs/order/cancel", ours).status_code == 404
    assert served.start(ours, "order").json()["id"] != run_id
    delivered = served.ask("POST", "/fire/PAID/42", theirs, {"amount": 8}, headers=there).json()
    assert delivered["run"] == {"id": run_id, "key": "order"}


@pytest.mark.sqlite_is_enough
def test_a_key_for_every_namespace_names_the_one_it_means(served: Any) -> None:
    key = served.key(name="all", namespace="*")
    assert served.ask("POST", "/fire/MOVED/1", key).status_code == 202
    assert served.ask("POST", "/fire/MOVED/1", key, headers={"Hermes-Namespace": "b"}).status_code == 202
    assert [event.namespace for event in served.events()] == ["b", "default"]
    for odd in ("*", "", "a:b", "A", "a b", "x" * 101):
        answer = served.ask("POST", "/fire/MOVED/1", key, headers={"Hermes-Namespace": odd})
        assert (answer.status_code, code(answer)) == (422, "not_a_namespace"), odd


@pytest.mark.sqlite_is_enough
def test_no_namespace_reaches_into_another_by_its_name(served: Any) -> None:
    with pytest.raises(NotMade):
        served.key(name="crafty", namespace="default:a")
    default = served.key()
    assert served.start(default, "a:42").status_code == 201


def test_a_use_is_noted_at_most_once_a_minute(served: Any, key: str) -> None:
    assert keys(served.app)[0][0].last_used_at is None
    for _ in range(3):
        served.ask("POST", "/fire/MOVED/1", key)
    served.stop()  # what is done aside is done by then
    first = keys(served.app)[0][0].last_used_at
    assert first is not None
    with served.app.store.write() as unit:
        unit.api_keys.note_use(1)
    assert keys(served.app)[0][0].last_used_at == first


def test_uses_are_news_once_a_minute() -> None:
    clock = FakeClock()
    uses = Uses(clock)
    assert [uses.is_news(1), uses.is_news(1), uses.is_news(2)] == [True, False, True]
    clock.advance(timedelta(seconds=60))
    assert [uses.is_news(1), uses.is_news(1)] == [True, False]


@pytest.mark.sqlite_is_enough
@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "x" * 101, "a\x1b[31m"])
def test_a_key_has_a_name_that_can_be_read(served: Any, name: str) -> None:
    with pytest.raises(NotMade):
        create_key(served.app, name, namespace="default", scopes=[Scope.fire])


@pytest.mark.sqlite_is_enough
def test_a_name_is_given_once_even_when_it_is_revoked(served: Any, key: str) -> None:
    revoke_key(served.app, "tests")
    with pytest.raises(NotMade, match="already"):
        served.key()
    with pytest.raises(NotMade, match="scope"):
        create_key(served.app, "other", namespace="default", scopes=[])


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, and nothing taken out of it."""
    heard = io.StringIO()
    handlers = list(logging.getLogger().handlers)
    configure_logs(_Blind(), level="debug", format="json", stream=heard)
    yield heard
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


class _Blind(Redactor):
    def text(self, text: str) -> str:
        return text


def test_a_secret_is_in_no_log_no_row_and_no_answer(served: Any, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_key_text(key)
    assert read is not None
    secret = key.rpartition(f"{read.prefix}_")[2]
    answers: list[str] = [repr(read)]
    with logged() as heard:
        for method, path, _ in EVERYTHING:
            answers.append(served.ask(method, path, key).text)
            answers.append(served.ask(method, path, key, headers={"Hermes-Namespace": "other"}).text)
            answers.append(served.ask(method, path, key[:-1] + "_").text)
        served.start(key)
        served.ask("POST", "/fire/PAID/42", key, {"amount": 7})
        served.work()
        with monkeypatch.context() as patched:  # an accident with the request in its hands
            patched.setattr("hermes.api.events.fire", lambda *_args, **_more: 1 / 0)
            broken = served.ask("POST", "/fire/MOVED/1", key)
        assert (broken.status_code, code(broken)) == (500, "internal")
        assert "Zero" not in broken.text
        revoke_key(served.app, "tests")
        answers.append(served.ask("POST", "/fire/MOVED/1", key).text)
        served.stop()
        answers.append(repr(keys(served.app)))
        assert "ZeroDivisionError" in heard.getvalue()
    everywhere = heard.getvalue() + broken.text + "".join(answers) + rows(served)
    assert secret not in everywhere
    assert secret[:20] not in everywhere
    assert read.hash not in heard.getvalue() + "".join(answers)
    assert read.hash in rows(served)


def rows(served: Any) -> str:
    """Every row of every table."""
    with served.app.store.read() as unit:
        tables = [name for name in served.tables() if name != "alembic_version"]
        found = {name: [list(row) for row in unit.connection.execute(text(f"SELECT * FROM {name}"))] for name in tables}
    return json.dumps(found, default=str)


def test_the_log_of_a_process_knows_what_a_key_looks_like() -> None:
    key = make_key_text()
    assert key not in Redactor().text(f"refused {key!r} of somebody")

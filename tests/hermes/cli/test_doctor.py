from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from hermes.app import App
from hermes.model.run import NewRun, RunKind
from store.migrate import FOLDER


def checks(place, *options: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for check in place.call("doctor", "--json", *options).json["checks"]:
        found.setdefault(check["about"], []).append(check)
    return found


def levels(found: dict[str, list[dict[str, str]]]) -> set[str]:
    return {check["level"] for about in found.values() for check in about}


def test_a_new_installation(place) -> None:
    outcome = place.ok("doctor")
    assert "was not there and was made" in outcome.out
    assert "not served now" in outcome.out


def test_a_healthy_installation_has_no_fail(place) -> None:
    place.work("good")
    found = place.on_board(lambda _app, _board: checks(place))
    assert levels(found) == {"ok"}
    assert "RunId" in found["board team"][0]["what"]
    assert f"version {len(list((FOLDER / 'versions').glob('v*.py'))):04}" in found["database"][0]["what"]


def test_configuration_problems_fail(place) -> None:
    (place.config / "polls" / "bad.yaml").write_text("poll: bad\n")
    outcome = place.call("doctor")
    assert outcome.code == 1
    assert "config/polls/bad.yaml" in outcome.out


def test_a_damaged_database_fails_with_the_cure(place) -> None:
    place.work("good")
    path = place.folder / "data" / "hermes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    outcome = place.call("doctor")
    assert outcome.code == 1
    assert "damaged" in outcome.out
    assert place.call("up").code == 4
    assert place.call("run-once").code == 4
    path.write_text("no database at all, and long enough to be one" * 100)
    for command in (("polls", "list"), ("runs", "show", "x"), ("doctor",)):
        outcome = place.call(*command)
        assert outcome.code == (1 if command == ("doctor",) else 4)
        assert "damaged" in outcome.said


def test_a_newer_database_fails(place) -> None:
    place.work()
    with closing(sqlite3.connect(place.folder / "data" / "hermes.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert "newer Hermes" in place.call("doctor").out
    for command in (("polls", "list"), ("runs", "list"), ("up",), ("db", "upgrade")):
        assert place.call(*command).code == 4


def test_what_is_wrong_in_the_database_is_named(place) -> None:
    place.write_poll("tasks", stop={"max_consecutive_failures": 1})
    place.work("fail now", "doubt this")
    card_id = place.add("theirs")
    place.claim_as(card_id, "hermes/other:boot", "their-run")
    place.work()
    app = App.load(place.config)
    with app.store.write() as uow:
        uow.runs.enqueue(NewRun("k", RunKind.function, "gone.function", {}))
        uow.limits.pause("credential", uow.now.replace(year=uow.now.year + 1), "Notion says 429")
    app.close()
    found = checks(place)
    assert found["poll tasks"][0]["level"] == "fail"
    assert "disabled" in found["poll tasks"][0]["what"].lower()
    assert found["board team"][0]["level"] == "fail"
    assert "board adopt" in found["board team"][0]["cure"]
    assert "gone.function" in found["run"][0]["what"]
    assert "429" in found["limiter"][0]["what"]
    said = " ".join(check["what"] for check in found["runs"])
    assert "1 parked" in said
    assert "1 failed" in said
    assert place.call("doctor").code == 1


def test_a_board_that_cannot_be_reached_fails(place) -> None:
    place.work()
    content = json.loads((place.config / "hermes.yaml").read_text())
    away = {"type": "notion", "base_url": "http://127.0.0.1:9"}
    place.write_hermes(
        connections={**content["connections"], "away": away}, boards={"team": {"connection": "away", "board": "0" * 32}}
    )
    found = checks(place)
    assert found["board team"][0]["level"] == "fail"
    assert "board team" not in checks(place, "--offline")

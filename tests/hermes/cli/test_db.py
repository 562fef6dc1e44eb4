from __future__ import annotations

import sqlite3
from contextlib import closing


def test_upgrade_says_what_it_does_and_does_it_once(place) -> None:
    assert "Would apply" in place.ok("db", "upgrade", "--dry-run").out
    sql = place.ok("db", "upgrade", "--sql").out
    assert "CREATE TABLE runs" in sql
    with closing(sqlite3.connect(place.folder / "data" / "hermes.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert "Applied" in place.ok("db", "upgrade").out
    assert "up to date" in place.ok("db", "upgrade").out
    assert place.ok("db", "upgrade", "--json").json["migrations"] == []


def test_a_password_is_never_shown(place) -> None:
    place.write_hermes(database="postgresql+psycopg://hermes:${DB_PASSWORD:-s3cretpass}@127.0.0.1:1/hermes")
    outcome = place.call("db", "upgrade")
    assert outcome.code != 0
    assert "s3cretpass" not in outcome.said

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from hermes.testing.databases import PostgresServer


def test_upgrade_says_what_it_does_and_does_it_once(place) -> None:
    assert "Would apply" in place.ok("db", "upgrade", "--dry-run").out
    sql = place.ok("db", "upgrade", "--sql").out
    assert "CREATE TABLE runs" in sql
    with closing(sqlite3.connect(place.folder / "data" / "hermes.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert "Applied" in place.ok("db", "upgrade").out
    assert "up to date" in place.ok("db", "upgrade").out
    assert place.ok("db", "upgrade", "--json").json["migrations"] == []


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
@pytest.mark.parametrize("command", [("db", "upgrade"), ("doctor",), ("up",), ("runs", "list")])
def test_a_password_is_never_shown(place, scheme: str, command: tuple[str, ...]) -> None:
    place.write_hermes(database=f"{scheme}://hermes:${{DB_PASSWORD:-s3cretpass}}@127.0.0.1:1/hermes")
    outcome = place.call(*command)
    assert outcome.code != 0
    assert "refused" in outcome.said
    assert "s3cretpass" not in outcome.said


def test_on_postgresql_the_commands_find_their_tables_and_say_how_far_it_is(
    place, postgres_server: PostgresServer
) -> None:
    url = postgres_server.new_database(tables=False)
    name = url.rsplit("/", 1)[1]
    role = f"role_{name}"
    postgres_server.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    url = url.replace("hermes@", f"{role}:${{DB_PASSWORD:-s3cretpass}}@")
    place.write_hermes(database=url)
    said = [place.ok("db", "upgrade"), place.ok("db", "upgrade"), place.call("doctor"), place.ok("runs", "list")]
    assert "Applied" in said[0].out
    assert "up to date" in said[1].out
    assert "; PostgreSQL 18" in said[2].out
    assert " ms away" in said[2].out
    assert "fsync" in said[2].out  # the server of the tests is a trial
    assert not any("s3cretpass" in outcome.said for outcome in said)
    postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    postgres_server.execute(f"DROP ROLE {role}")

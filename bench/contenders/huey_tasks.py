"""huey: a pipeline of three tasks (each starts the next), or one task that makes three calls. Its SQLite storage with
fsync asked for; on PostgreSQL its SQL storage through peewee's pool. Thread workers, all other settings its own."""

from __future__ import annotations

import logging
from typing import Any

from huey import SqliteHuey
from huey.contrib.sql_huey import SqlHuey
from playhouse.pool import PooledPostgresqlDatabase
from psycopg import conninfo

from bench.contenders.asked import asked, step, timed

logging.disable(logging.WARNING)


def parts(url: str) -> dict[str, Any]:
    """As peewee takes them, whose own reading of a URL knows no socket folder."""
    found = conninfo.conninfo_to_dict(url)
    return {"database": found.pop("dbname"), **found}


def main() -> None:
    ask = asked()
    huey: Any = (
        SqlHuey(database=PooledPostgresqlDatabase(**parts(ask.database), max_connections=ask.slots + 4))
        if ask.postgres
        else SqliteHuey(filename=ask.database, fsync=True)
    )

    @huey.task()
    def first(job: int) -> int:
        step(job, 1)
        return job

    @huey.task()
    def second(job: int) -> int:
        step(job, 2)
        return job

    @huey.task()
    def third(job: int) -> int:
        return step(job, 3)

    @huey.task()
    def whole(job: int) -> int:
        return sum(step(job, place) for place in (1, 2, 3))

    def enqueue() -> None:
        for job in ask.numbers:
            if ask.variant == "chained":
                huey.enqueue(first.s(job).then(second).then(third))
            else:
                whole(job)

    if ask.verb == "enqueue":
        timed(enqueue)
    else:
        huey.create_consumer(workers=ask.slots, worker_type="thread").run()


if __name__ == "__main__":
    main()

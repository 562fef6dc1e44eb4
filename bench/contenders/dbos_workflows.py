"""DBOS: a workflow of three steps. `queue`: its queue, at most `slots` at once, looked at every 50 ms (its default of
1 s would leave it idle most of the time); `threads`: `slots` threads that call the workflow directly, no queue. `-wal`:
the same on a SQLite file that was put into WAL mode before, which it does not do itself. Sleepers are async workflows,
a task each: of its two ways the one that holds no thread."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.contenders.asked import ASLEEP, asked, step, timed, until_told


@DBOS.step()
def act(job: int, place: int) -> int:
    return step(job, place)


@DBOS.workflow()
def work(job: int) -> int:
    return act(job, 1) + act(job, 2) + act(job, 3)


@DBOS.step()
async def act_async(job: int, place: int) -> int:
    return step(job, place)


@DBOS.workflow()
async def sleep(job: int) -> int:
    await act_async(job, 1)
    await DBOS.sleep_async(ASLEEP.total_seconds())
    return await act_async(job, 2)


def main() -> None:
    ask = asked()
    if not ask.postgres and ask.variant.endswith("-wal"):
        with closing(sqlite3.connect(ask.database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
    url = ask.database if ask.postgres else f"sqlite:///{ask.database}"
    config: Any = {"name": "bench", "system_database_url": url, "log_level": "CRITICAL", "application_version": "1"}
    DBOS(config=config)
    if ask.verb == "work" and not ask.variant.startswith("queue"):
        DBOS.launch()
        with ThreadPoolExecutor(ask.slots) as pool:
            list(pool.map(call, ask.numbers))
        until_told()
        return
    if ask.verb == "enqueue":
        DBOS.listen_queues([])
    DBOS.launch()
    if ask.kind == "sleep":  # each would keep a slot for as long as it sleeps
        DBOS.register_queue("sleepers", polling_interval_sec=0.05)
    else:
        DBOS.register_queue("jobs", worker_concurrency=ask.slots, polling_interval_sec=0.05)
    if ask.verb == "work":
        until_told()
    elif ask.kind == "sleep":
        timed(lambda: [put_sleeper(job) for job in ask.numbers])
    elif ask.variant.startswith("queue"):
        timed(lambda: [put(job) for job in ask.numbers])
    else:
        timed(lambda: None)
    DBOS.destroy()


def put(job: int) -> None:
    with SetWorkflowID(f"job-{job}"):
        DBOS.enqueue_workflow("jobs", work, job)


def put_sleeper(job: int) -> None:
    with SetWorkflowID(f"sleeper-{job}"):
        DBOS.enqueue_workflow("sleepers", sleep, job)


def call(job: int) -> None:
    with SetWorkflowID(f"job-{job}"):
        work(job)


if __name__ == "__main__":
    main()

"""procrastinate: three tasks, each of which defers the next, or one task that makes three calls. Async tasks, as its
documentation advises for concurrency; all other settings its own. PostgreSQL only."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from procrastinate import App, PsycopgConnector

from bench.contenders.asked import asked, step


async def main() -> None:
    ask = asked()
    app = App(connector=PsycopgConnector(conninfo=ask.database, max_size=ask.slots + 2))

    @app.task(name="third")
    async def third(job: int) -> int:
        return step(job, 3)

    @app.task(name="second")
    async def second(job: int) -> int:
        place = step(job, 2)
        await third.defer_async(job=job)
        return place

    @app.task(name="first")
    async def first(job: int) -> int:
        place = step(job, 1)
        await second.defer_async(job=job)
        return place

    @app.task(name="whole")
    async def whole(job: int) -> int:
        return sum(step(job, place) for place in (1, 2, 3))

    async with app.open_async():
        if ask.verb == "work":
            await app.run_worker_async(concurrency=ask.slots)
            return
        await app.schema_manager.apply_schema_async()
        began = time.monotonic()
        task = first if ask.variant == "chained" else whole
        for start in range(0, ask.jobs, 500):
            await task.batch_defer_async(*({"job": job} for job in range(start, min(start + 500, ask.jobs))))
        json.dump({"seconds": time.monotonic() - began}, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())

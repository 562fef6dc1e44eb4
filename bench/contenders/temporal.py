"""Temporal: a workflow of three activities. `local`: of three local activities, which its worker records together with
what follows them. Sync activities in threads; a worker's own defaults (100 activities at once, whatever `slots` says).
An activity must say how long it may take; nothing else is set. Its death is noticed by that, and by nothing sooner."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench.contenders.asked import ASLEEP, Asked, asked, step

QUEUE = "bench"
TIMEOUT = 60.0
"""Seconds. There is no default; its own examples say 5 s to 5 min."""


@activity.defn
def act(job: int, place: int) -> int:
    return step(job, place)


async def made(job: int, place: int, variant: str, timeout: float) -> int:
    limit = timedelta(seconds=timeout or TIMEOUT)
    call = workflow.execute_local_activity if variant == "local" else workflow.execute_activity
    return await call(act, args=[job, place], start_to_close_timeout=limit)


@workflow.defn(name="steps")
class Steps:
    @workflow.run
    async def run(self, job: int, variant: str, timeout: float) -> int:
        total = await made(job, 1, variant, timeout)
        total += await made(job, 2, variant, timeout)
        return total + await made(job, 3, variant, timeout)


@workflow.defn(name="sleep")
class Sleep:
    @workflow.run
    async def run(self, job: int, variant: str, timeout: float) -> int:
        await made(job, 1, variant, timeout)
        await asyncio.sleep(ASLEEP.total_seconds())
        return await made(job, 2, variant, timeout)


async def enqueue(client: Client, ask: Asked) -> None:
    began, at_once = time.monotonic(), asyncio.Semaphore(50)

    async def put(job: int) -> None:
        async with at_once:
            args = [job, ask.variant, ask.timeout]
            await client.start_workflow(ask.kind, args=args, id=f"{ask.kind}-{job}", task_queue=QUEUE)

    await asyncio.gather(*map(put, ask.numbers))
    print(json.dumps({"seconds": time.monotonic() - began}), flush=True)
    os._exit(0)  # its threads may die of an interpreter that ends beneath them


async def main() -> None:
    ask = asked()
    client = await Client.connect(ask.database.removeprefix("temporal://"))
    if ask.verb == "enqueue":
        await enqueue(client, ask)
        return
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    with ThreadPoolExecutor(100) as pool:
        async with Worker(client, task_queue=QUEUE, workflows=[Steps, Sleep], activities=[act], activity_executor=pool):
            await told.wait()


if __name__ == "__main__":
    asyncio.run(main())

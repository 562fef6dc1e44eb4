"""Start something outside, then ask until it is done: ever more rarely, under a cap, and a person for the rest."""

from __future__ import annotations

from datetime import timedelta

from billing import ask_batch, is_final, send_batch

from hermes.durable import function, poll_until


@function
async def settle_invoice(
    invoice: str,
    every: timedelta = timedelta(seconds=30),
    longest: timedelta = timedelta(minutes=10),
    deadline: timedelta = timedelta(hours=3),
) -> str:
    receipt = await send_batch(f"invoice {invoice}")
    batch = await poll_until(
        ask_batch, receipt, until=is_final, every=every, factor=2, longest=longest, deadline=deadline
    )
    return f"invoice {invoice} is {batch.state}"

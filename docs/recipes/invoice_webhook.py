"""Webhook first, and a poll as the safety net: whichever comes first, the system is asked, and its answer counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from billing import ask_batch, is_final, send_batch

from hermes.durable import Event, function, poll_until

BATCH_SETTLED: Event[Any] = Event("BATCH_SETTLED", Any)  # POST /api/v1/fire/BATCH_SETTLED/<receipt>, whatever the body


@function
async def settle_by_webhook(
    invoice: str,
    every: timedelta = timedelta(minutes=10),
    longest: timedelta = timedelta(hours=1),
    deadline: timedelta = timedelta(days=2),
) -> str:
    receipt = await send_batch(f"invoice {invoice}")
    batch = await poll_until(
        ask_batch,
        receipt,
        until=is_final,
        every=every,
        longest=longest,
        deadline=deadline,
        event=BATCH_SETTLED,
        instance_id=receipt,
    )
    return f"invoice {invoice} is {batch.state}"

"""A poll that goes on for weeks: asked rarely, and begun anew before its history grows long."""

from __future__ import annotations

from datetime import datetime, timedelta

from billing import ask_batch, is_final

from hermes.durable import ContinueAsNew, PollExhausted, Refused, continue_as_new, function, now, poll_until


@function
async def watch_parcel(
    receipt: str, until: datetime, every: timedelta = timedelta(hours=1), asks: int = 500
) -> str | Refused | ContinueAsNew:
    try:
        batch = await poll_until(
            ask_batch, receipt, until=is_final, every=every, factor=1, longest=every, asks=asks, raises=True
        )
    except PollExhausted as exhausted:  # 500 asks are 1,000 steps
        if now() < until:
            return continue_as_new(watch_parcel, receipt, until, every, asks)
        return Refused(f"Parcel {receipt} has not come by {until:%d %B}: {exhausted}")
    return f"parcel {receipt} is {batch.state}"

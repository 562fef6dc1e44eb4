"""When a claim on the board expires and when it must be extended. Pure arithmetic."""

from __future__ import annotations

from datetime import datetime, timedelta

from hermes.model.run import Run, RunState


def round_up_to_minute(instant: datetime) -> datetime:
    """Boards keep minutes: an expiry is never shown earlier than it is."""
    floor = instant.replace(second=0, microsecond=0)
    return floor if floor == instant else floor + timedelta(minutes=1)


def busy_until(run: Run, now: datetime) -> datetime:
    """A sleeping run needs its claim until it wakes; any other needs it now."""
    if run.state is RunState.waiting and run.due_at is not None:
        return max(now, run.due_at)
    return now


def wanted_expiry(run: Run, now: datetime, lease: timedelta) -> datetime:
    return round_up_to_minute(busy_until(run, now) + lease)


def must_extend(run: Run, now: datetime, lease: timedelta, shown: datetime | None) -> bool:
    """Rarely: only when less than a third of the lease would be left."""
    return shown is None or shown < busy_until(run, now) + lease / 3


def believed(shown: datetime | None, now: datetime, lease: timedelta) -> datetime:
    """When a claim just made expires, by what the board shows of it. People can write there too: nothing beyond what
    we would have written is believed, nor anything before now."""
    ours = round_up_to_minute(now + lease)
    return ours if shown is None else min(max(shown, now), ours)


def next_look(shown: datetime, lease: timedelta) -> datetime:
    return shown - lease / 3

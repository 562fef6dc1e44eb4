"""What runs an occurrence, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hermes.config.configuration import PollConfig
from hermes.ports.polls import PollLease


@dataclass(frozen=True, slots=True)
class OccurrenceOutcome:
    """Counts of one occurrence. `error`: it failed (the counts may still say how far it came)."""

    checked: int = 0
    """Items looked at."""
    matched: int = 0
    """Of those, what the filter let through."""
    changed: int = 0
    """Items that were new or different."""
    claimed: int = 0
    """Cards claimed, or changes acted on."""
    error: Exception | None = None
    note: str | None = None
    """For people: `3 cards skipped: ...`."""
    cursor: str | None = None
    watermark: datetime | None = None


class OccurrenceRunner(Protocol):
    def __call__(self, poll: PollConfig, due_at: datetime, lease: PollLease) -> OccurrenceOutcome:
        """Fetch, filter, claim. A raised exception is the same as `OccurrenceOutcome(error=...)`."""
        ...

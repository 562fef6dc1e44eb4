"""The numbers of the engine, in one place. Tests and small machines shorten them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class EngineSettings:
    slots: int = 8
    """Runs driven at once by one worker process."""
    lease: timedelta = timedelta(seconds=30)
    """How long a run belongs to a worker that says nothing; renewed every third of it."""
    tick: timedelta = timedelta(seconds=1)
    """How late a run may be noticed that became due by the clock or by another process."""
    poison_after: int = 5
    """Crashes in a row, nothing recorded in between, after which a run is parked."""
    suspect_after: int = 2
    """Crashes in a row after which a run is driven apart from others like it: a process starts one, and the next
    when that one has left or has lived through a lease. So a run that kills its process soon dies alone, and those that
    died beside it are not taken for poison too."""
    suspect_pause: timedelta = timedelta(seconds=10)
    """How long a suspect rests before it is driven again; twice as long at each further crash. Bad minutes of a machine
    are not taken for poison, and poison does not keep a supervisor busy."""
    drain: timedelta = timedelta(seconds=30)
    """How long a stopping worker lets runs finish before it hands them back."""
    max_bytes: int = 1024 * 1024
    """Of one set of arguments or one result, as JSON."""
    max_steps: int = 10_000
    """Of one history; it may be begun anew with `continue_as_new`."""
    warn_steps: int = 2_000
    """A history that is as long is told of, once."""
    fan_out: int = 16
    """Commands of one run that are under way at once."""
    max_kept: int = 10_000
    """Events kept for one name and instance."""
    store_retry: timedelta = timedelta(milliseconds=500)
    """Pause before a transaction is tried again that the database could not make."""

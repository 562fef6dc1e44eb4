"""Breakers of one credential, one for each endpoint: who has learnt that an endpoint does not work spares the others,
and the other side, from learning it again.

    closed      calls pass
    open        temporary failures came in a row: nothing is sent for a while
    half open   the while is over: one call tries; it closes the breaker, or opens it for twice as long
    shut        the other side has said that the endpoint is not there: until the configuration changes
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from hermes.clock import Clock
from hermes.errors import Fatal, Retryable

FAILURES = 5
"""So many in a row open a breaker."""
TOLD = 3
"""One answer that an endpoint is not there may be odd; so many in a row are believed."""
FIRST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
PROBE_SECONDS = 60.0
"""A probe whose end nobody has told (its process thread died) holds the others up no longer than this."""


@dataclass(slots=True)
class _State:
    failures: int = 0
    open_until: float = 0.0
    """Boot seconds."""
    wait: float = 0.0
    probe_until: float = 0.0
    told: int = 0
    shut: Fatal | None = None
    last: str = ""


class Breaker:
    """Safe to share between threads; each process learns for itself. A refusal is raised before anything is sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._states: dict[str, _State] = {}

    def admit(self, endpoint: str) -> None:
        """Raises what keeps the call from being sent: `Fatal` while shut, `Retryable` while open."""
        with self._mutex:
            state = self._states.get(endpoint)
            if state is None:
                return
            if state.shut is not None:
                raise type(state.shut)(f"{state.shut} (not asked again until the configuration changes)")
            if state.wait == 0:
                return
            now = self._clock.boot_seconds()
            left = max(state.open_until, state.probe_until) - now
            if left > 0:
                raise Retryable(
                    f"{endpoint} failed {state.failures} times in a row ({state.last}): again in {left:.0f} s, "
                    "nothing was sent",
                    retry_after=left,
                )
            state.probe_until = now + PROBE_SECONDS

    def answered(self, endpoint: str) -> None:
        """The endpoint works, though it may have refused this call."""
        with self._mutex:
            self._states.pop(endpoint, None)

    def failed(self, endpoint: str, error: Exception, *, permanent: bool) -> None:
        """No usable answer; `permanent`: it was said that there will be none."""
        with self._mutex:
            state = self._states.setdefault(endpoint, _State())
            state.probe_until = 0.0
            state.told = state.told + 1 if permanent else 0
            if permanent and isinstance(error, Fatal):
                state.shut = error if state.told >= TOLD else None
                return
            state.failures += 1
            state.last = str(error)
            if state.failures >= FAILURES:
                state.wait = min(max(FIRST_SECONDS, 2 * state.wait), LONGEST_SECONDS)
                state.open_until = self._clock.boot_seconds() + state.wait

    def reset(self) -> None:
        """The configuration has changed."""
        with self._mutex:
            self._states.clear()

    def shut(self) -> dict[str, str]:
        """Endpoints that are not asked any more, and why."""
        with self._mutex:
            return {name: str(state.shut) for name, state in self._states.items() if state.shut is not None}

"""How long to wait before the next attempt or delivery. Pure: the jitter is a hash, so a replay computes the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Backoff:
    first: timedelta
    factor: float
    longest: timedelta
    jitter: float = 0.25
    """The wait is lengthened by up to this share of itself."""

    def wait(self, tries: int, *identity: object) -> timedelta:
        """After `tries` failures (1 or more) of what `identity` names."""
        # The exponent is bounded so that a long history cannot overflow; `longest` is reached much earlier.
        grown = self.first.total_seconds() * self.factor ** min(max(tries, 1) - 1, 60)
        plain = min(grown, self.longest.total_seconds())
        return timedelta(seconds=plain * (1 + self.jitter * _share(*identity, tries)))


def _share(*identity: object) -> float:
    digest = hashlib.sha256("\x00".join(map(str, identity)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


COMMAND = Backoff(first=timedelta(seconds=1), factor=2, longest=timedelta(minutes=5))
DELIVERY = Backoff(first=timedelta(seconds=5), factor=2, longest=timedelta(minutes=15))

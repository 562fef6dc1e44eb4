"""Randomness of a seed in place of the machine's, for ids, boot names and jitter."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """While the block lasts, `uuid4`, `secrets` and the module `random` are of this seed."""
    source = random.Random(seed)
    state, system, known = random.getstate(), os.urandom, random._urandom  # type: ignore[attr-defined]
    random.seed(seed)
    os.urandom = random._urandom = source.randbytes  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        os.urandom, random._urandom = system, known  # type: ignore[attr-defined]
        random.setstate(state)

"""Standing faults by rate. What a call meets is told by the seed, its route, the object it is about, and how many calls
of that route for that object came before: calls of other objects, and what runs beside them, change nothing of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sources.board.faults import Fault, build, fits
from sources.board.named_faults import Named, find
from sources.board.throttle import Budgets

Draw: TypeAlias = Iterator[float]

WEBHOOK_FAULTS = ("webhook_dropped", "webhook_doubled", "webhook_reordered")


@dataclass(frozen=True, slots=True)
class Rate:
    name: str
    fault: Named
    rate: float
    value: Any
    """None is the fault's own."""


@dataclass(slots=True)
class Plan:
    seed: int
    rates: tuple[Rate, ...]
    bots: frozenset[str]
    """Authors that meet it; none is everybody but the person at the board."""
    budgets: Budgets
    webhooks: dict[str, float]
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    @classmethod
    def of(cls, given: Any) -> Plan:
        """`{"seed": 7, "conflict": 0.05, "rate_limited": {"rate": 0.03, "value": 460}, ...}`. Raises ValueError."""
        if not isinstance(given, dict):
            raise ValueError("a plan is an object: seed, and rates by name")
        rest = dict(given)
        seed = rest.pop("seed", 1)
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise ValueError("seed must be a whole number")
        bots = rest.pop("bots", [])
        if not isinstance(bots, list):
            raise ValueError("bots must be a list of ids")
        budgets = Budgets(_budget(rest, "bot_budget"), _budget(rest, "workspace_budget"))
        webhooks = {name: _rate(name, rest.pop(name)) for name in WEBHOOK_FAULTS if name in rest}
        rates = tuple(_entry(name, entry) for name, entry in rest.items())
        for calls in ("read", "write", "query"):
            total = sum(r.rate for r in rates if calls in _CAN_MEET[r.fault.calls])
            if total > 1:
                raise ValueError(f"the rates of what a {calls} can meet make {total:g}: at most 1")
        return cls(seed, rates, frozenset(map(str, bots)), budgets, webhooks)

    def shown(self) -> dict[str, Any]:
        """As `of` takes it."""
        shown: dict[str, Any] = {"seed": self.seed}
        if self.bots:
            shown["bots"] = sorted(self.bots)
        if self.budgets.bot is not None:
            shown["bot_budget"] = self.budgets.bot
        if self.budgets.workspace is not None:
            shown["workspace_budget"] = self.budgets.workspace
        for rate in self.rates:
            shown[rate.name] = rate.rate if rate.value is None else {"rate": rate.rate, "value": rate.value}
        return {**shown, **self.webhooks}

    def draw(self, route: str, writes: bool, objects: Sequence[str]) -> Fault | None:
        """What the next call of this route for this object meets."""
        about = objects[0] if objects else ""
        self._counts[route, about] += 1
        numbers = _numbers(self.seed, route, about, self._counts[route, about])
        left = next(numbers)
        for rate in self.rates:
            if not fits(rate.fault.calls, route, writes):  # type: ignore[arg-type]
                continue
            if left < rate.rate:
                return _made(rate, numbers)
            left -= rate.rate
        return None

    def webhook_fault(self, number: int) -> str | None:
        """What the n-th event meets on its way."""
        left = next(_numbers(self.seed, "webhook", "", number))
        for name, rate in self.webhooks.items():
            if left < rate:
                return name
            left -= rate
        return None


_CAN_MEET = {"any": ("read", "write", "query"), "read": ("read", "query"), "write": ("write",), "query": ("query",)}


def _made(rate: Rate, numbers: Draw) -> Fault:
    fault = build({"name": rate.name, "value": rate.value})
    if fault.kind in ("hang", "ghost"):
        fault.seconds *= next(numbers)
    fault.lag_seconds *= next(numbers)
    return fault


def _numbers(seed: int, route: str, about: str, nth: int) -> Draw:
    """Numbers from 0 up to 1 that depend on nothing else."""
    part = 0
    while True:
        digest = hashlib.sha256(f"{seed}\x00{route}\x00{about}\x00{nth}\x00{part}".encode()).digest()
        yield int.from_bytes(digest[:7], "big") / 2**56
        part += 1


def _entry(name: str, entry: Any) -> Rate:
    try:
        named = find(name)
    except ValueError as error:
        raise ValueError(f"{error} (a plan also knows seed, bots, budgets and {', '.join(WEBHOOK_FAULTS)})") from None
    if named.scripted:
        raise ValueError(f"{name} is what a person does once: it has no rate")
    value = None
    if isinstance(entry, dict):
        unknown = entry.keys() - {"rate", "value"}
        if unknown or "rate" not in entry:
            raise ValueError(f"{name}: must be a rate, or an object of rate and value")
        entry, value = entry["rate"], entry.get("value")
    rate = Rate(name, named, _rate(name, entry), value)
    build({"name": name, "value": value})  # refuses a value that makes no sense
    return rate


def _rate(name: str, rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ValueError(f"{name}: the rate {rate!r} is not between 0 and 1")
    return float(rate)


def _budget(rest: dict[str, Any], name: str) -> int | None:
    budget = rest.pop(name, None)
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
        raise ValueError(f"{name} must be a whole number of calls a minute")
    return budget

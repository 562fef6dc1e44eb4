"""A run's timeline for people: an attempt and what came of it are one line, steps bear their names, and every time is
said twice, as it was and counted from the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.cli.output import cut, instant, span
from hermes.model.run import TimelineEntry
from hermes.model.step import Step

OUTCOMES = {"result": "done", "failure": "failed", "outcome unknown": "outcome unknown"}
COLUMNS = ("AT", "AFTER", "WHAT", "STEP", "DETAIL")
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Line:
    at: datetime
    what: str
    step: int | None
    detail: str


def lines(timeline: Sequence[TimelineEntry]) -> list[Line]:
    found: list[Line] = []
    begun: dict[tuple[int | None, object], int] = {}
    """Where the line of an attempt is, by step and attempt, until its outcome is met."""
    for entry in timeline:
        attempt = entry.step, entry.detail.get("attempt")
        if entry.what == "attempt":
            begun[attempt] = len(found)
            found.append(Line(entry.at, f"attempt {attempt[1]}", entry.step, "no outcome is recorded"))
        elif entry.what in OUTCOMES and "source" not in entry.detail and attempt in begun:
            place = begun.pop(attempt)
            found[place] = replace(found[place], detail=_outcome(found[place].at, entry))
        else:
            found.append(Line(entry.at, entry.what, entry.step, _detail(entry)))
    return found


def rows(
    timeline: Sequence[TimelineEntry], steps: Sequence[Step], start: datetime, redact: Callable[[str], str]
) -> list[tuple[str, ...]]:
    names = {entry.step: str(entry.detail["name"]) for entry in timeline if entry.step and "name" in entry.detail}
    names |= {step.seq: step.name for step in steps}
    return [
        (
            instant(line.at),
            _after(line.at, start),
            line.what,
            "" if line.step is None else f"{line.step} {cut(names.get(line.step, ''), 40)}".rstrip(),
            cut(redact(line.detail), LONGEST),
        )
        for line in lines(timeline)
    ]


def _after(at: datetime, start: datetime) -> str:
    return f"+{span(max((at - start).total_seconds(), 0))}"


def _outcome(began: datetime, entry: TimelineEntry) -> str:
    told = f"{OUTCOMES[entry.what]} after {span(max((entry.at - began).total_seconds(), 0))}"
    if "error" in entry.detail:
        told += f": {entry.detail['error']}"
    if "due_at" in entry.detail:
        told += f"; next {_time(entry.at, entry.detail['due_at'])}"
    return f"{told}; the last attempt" if entry.detail.get("last") else told


def _detail(entry: TimelineEntry) -> str:
    told = []
    for name, value in entry.detail.items():
        if name in ("until", "due_at", "kept_until"):
            told.append(f"{name.removesuffix('_at').replace('_', ' ')} {_time(entry.at, value)}")
        elif value is True:
            told.append(name)
        else:
            told.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(told)


def _time(now: datetime, text: object) -> str:
    """Of the timeline's own ISO times: what it is, and how long after the entry."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    return f"{instant(at)} (+{span(max((at - now).total_seconds(), 0))})"

"""How long the jobs of a worker that was killed (kill -9) stand still when it is started again at once: with each
engine's default settings, and with its death noticed after a few seconds, where it can be told to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bench.contender import Contender
from bench.databases import Databases
from bench.kills import recovery
from bench.table import Table

JOBS = 60


def measure(
    contenders: list[Contender], databases: Databases, *, slots: int, timeout: float, patience: float
) -> tuple[Table, list[dict[str, Any]]]:
    raw: list[dict[str, Any]] = []
    table = Table(
        "A worker is killed in the middle and started again at once: when do its jobs go on",
        ["contender", "settings", "interrupted", "came back", "first after", "last after"],
    )
    for contender in contenders:
        for seconds in (0.0, timeout) if contender.script in ("hermes_runs", "temporal") else (0.0,):
            if not (contender.sleeps or contender.script == "temporal"):
                continue
            found = recovery(contender, databases, jobs=JOBS, slots=slots, patience=patience, timeout=seconds)
            first, last = (f"{at:.1f} s" if at is not None else "never" for at in (found.first, found.last))
            settings = f"given up after {seconds:.0f} s" if seconds else "default"
            table.add(contender.key, settings, str(found.interrupted), str(found.came_back), first, last)
            raw.append({"contender": contender.key, "timeout": seconds, **asdict(found)})
            print(f"  {contender.key:36} {settings:22} {found}")
    return table, raw

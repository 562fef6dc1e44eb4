"""The long crash campaign: `python tests/crash/campaign.py [--seed N] [--only PART] [--database sqlite|postgresql]`.

    calls    what a card costs when nothing fails, counted by the board
    storm    200 cards, processes killed at random and at every crash point, faults of the board on
    rivals   two installations on one shared board
    medley   durable functions of every shape: delays, events, races, fan-out, compensation, children
    siege    1,000 kills over both databases, a mixed load, database restarts
    rows     each row of the failure catalogue by itself (`HERMES_CRASH=all pytest tests/crash`)

Exit code 0 when all held. The seed decides whom to kill, when, where, and what the board's calls meet; which
instruction a random kill meets is the machine's business.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from calls import count_calls
from medley import medley
from rivals import rivals
from siege import siege
from storm import say, storm

from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery

PARTS = ("calls", "storm", "rivals", "medley", "siege", "rows")


def rows() -> list[str]:
    """Each row of the catalogue as a test of its own."""
    say("\nRows of the failure catalogue, one test each")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", str(Path(__file__).parent)]
    ended = subprocess.run(command, env={**os.environ, "HERMES_CRASH": "all"}, check=False)
    return [f"pytest ended with {ended.returncode}"] if ended.returncode else []


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Keeps what was committed through every restart, as a real one does."""
    server = PostgresServer(durable=True)
    server.start()
    try:
        yield server
    finally:
        server.close()


def run(part: str, folder: Path, nursery: Nursery, options: argparse.Namespace) -> list[str]:
    if part == "calls":
        return count_calls(folder, nursery)
    if part == "rows":
        return rows()
    found: list[str] = []
    over_each = {"storm": storm, "medley": medley, "siege": siege}.get(part)
    if over_each is not None and "sqlite" in options.databases:
        found += over_each(folder, nursery, options, None)
    if "postgresql" in options.databases:
        with postgres_server() as server:
            found += (over_each or rivals)(folder, nursery, options, server)
    elif part == "rivals":
        found += rivals(folder, nursery, options, None)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The long crash campaign of Hermes.")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part, or several")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default=None, help="default: both in turn")
    parser.add_argument("--seed", type=int, default=None, help="decides whom to kill, when and where; printed")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the storm")
    parser.add_argument("--cards", type=int, default=200, help="of the storm")
    parser.add_argument("--contested", type=int, default=60, help="cards that both rivals go for")
    parser.add_argument("--kills", type=int, default=500, help="of the siege and the medley, on each database")
    parser.add_argument("--processes", type=int, default=4, help="of the storm; the siege has two more")
    parser.add_argument("--concurrent", type=int, default=40, help="claim.max_concurrent of the storm's poll")
    parser.add_argument("--no-faults", dest="faults", action="store_false", help="the board answers well in the storm")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for things to become quiet")
    parser.add_argument("--keep", action="store_true", help="keep the folder also when all is well")
    options = parser.parse_args()
    options.databases = (options.database,) if options.database else ("sqlite", "postgresql")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    folder = Path(tempfile.mkdtemp(prefix="hermes-crash-"))
    nursery = Nursery()
    found: list[str] = []
    try:
        for part in options.only or PARTS:
            found += [f"{part}: {problem}" for problem in run(part, folder, nursery, options)]
    finally:
        nursery.close()
    for problem in found[:50]:
        say(f"PROBLEM {problem}")
    if found:
        say(f"\n{len(found)} problem(s). Everything is in {folder}")
        say(f"Again: {' '.join([*sys.argv, *([] if '--seed' in sys.argv else ['--seed', str(options.seed)])])}")
        return 1
    say("\nAll held.")
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Deterministic simulation: the real code on one schedule of a seed. docs/simulation.md says what is simulated.

python tests/sim/simulate.py --seed 7 --trace      one seed, everything that happens
python tests/sim/simulate.py --seeds 1000          seeds 1 to 1000, two processes at a time
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulation.world import Outcome, run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="simulate.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--trace", action="store_true", help="everything that happens, a line each")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default 1)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--until-failure", action="store_true", help="stop at the first that fails")
    parser.add_argument("--hash", action="store_true", help="of one seed, only the hash of all that happened")
    chosen = parser.parse_args(arguments)
    if chosen.hash:
        print(run(chosen.seed).digest)
        return 0
    if chosen.seed is not None:
        return _one(chosen.seed, trace=chosen.trace)
    return _many(range(chosen.first, chosen.first + chosen.seeds), chosen.processes, until_failure=chosen.until_failure)


def _one(seed: int, *, trace: bool) -> int:
    began = time.monotonic()
    outcome = run(seed, print if trace else None)
    _tell(outcome)
    print(
        f"seed {seed}: {'FAILED' if outcome.problems else 'ok'}, {outcome.steps} steps, {outcome.seconds:.0f} s "
        f"simulated in {time.monotonic() - began:.2f} s, {outcome.counts}, hash {outcome.digest[:16]}"
    )
    return 1 if outcome.problems else 0


def _many(seeds: range, processes: int, *, until_failure: bool) -> int:
    began = time.monotonic()
    failed: list[int] = []
    totals: Counter[str] = Counter()
    for done, outcome in enumerate(_outcomes(seeds, processes), 1):
        totals.update(outcome.counts)
        if outcome.problems:
            failed.append(outcome.seed)
            _tell(outcome)
        if done % 50 == 0 or done == len(seeds):
            print(f"{done} of {len(seeds)} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
        if failed and until_failure:
            break
    print(", ".join(f"{count} {name}" for name, count in totals.items()))
    print(f"failed: {' '.join(map(str, failed))}" if failed else "all hold")
    return 1 if failed else 0


def _outcomes(seeds: range, processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run, seeds)


def _tell(outcome: Outcome) -> None:
    for problem in outcome.problems:
        print(f"seed {outcome.seed}: {problem}")
    if outcome.problems:
        print(f"  again: python tests/sim/simulate.py --seed {outcome.seed} --trace", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# ruff: noqa: E501 -- lines of the code as they stand there
"""Plants bugs in a copy of the code, one at a time, and counts the seeds until the simulation finds each.

    python tests/sim/planted.py              all of them, two at a time
    python tests/sim/planted.py settle       those whose name contains a word

One that is not found within --seeds (default 1000) makes the exit code 1: then it is the simulation that failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "protections"))

from remove import ROOT, copy_of_the_code  # noqa: E402 -- as a script finds it

__all__ = ["BUGS", "ROOT"]

Edit = tuple[str, str, str]
"""File, what stands there exactly once, and what is put in its place."""


@dataclass(frozen=True)
class Bug:
    name: str
    edits: tuple[Edit, ...]


BUGS = (
    Bug(
        "no fencing token",
        (
            (
                "store/holding.py",
                '    RUNS.c.owner == bindparam("b_owner"),\n    RUNS.c.fence == bindparam("b_fence"),\n',
                '    or_(RUNS.c.owner == bindparam("b_owner"), bindparam("b_fence", type_=Integer) > 0),\n',
            ),
            ("store/holding.py", "import ColumnElement, and_,", "import ColumnElement, Integer, or_, and_,"),
            (
                "store/leases.py",
                '        RUNS.c.owner == bindparam("b_owner"),\n        in_state(RunState.running),\n    )\n    .values(lease_until=bindparam("b_until"))',
                '        in_state(RunState.running),\n    )\n    .values(lease_until=bindparam("b_until"))',
            ),
            ("store/leases.py", "if (lease.run_id, lease.fence) in held}", "if lease.run_id in dict(held)}"),
            (
                "store/leases.py",
                '{"b_runs": runs, "b_owner": owner, "b_until": until}',
                '{"b_runs": runs, "b_until": until}',
            ),
            (
                "store/claims.py",
                "        wanted = update(CardRow).where(*_is(hold.board, hold.card_id), col(CardRow.fence) == hold.fence)\n",
                "        wanted = update(CardRow).where(*_is(hold.board, hold.card_id))\n",
            ),
        ),
    ),
    Bug(
        "no UNIQUE key",
        (
            ("store/tables/runs.py", "    key: str = Field(max_length=500, unique=True)\n", "    key: str\n"),
            ("store/runs.py", '_add_run = InsertIgnoring(RUNS, "key")', '_add_run = InsertIgnoring(RUNS, "id")'),
        ),
    ),
    Bug(
        "settle no longer than W",
        (
            (
                "hermes/claim/claiming.py",
                "times.wait_out if late else times.settle",
                "times.wait_out if late else times.guard / 2",
            ),
        ),
    ),
    Bug(
        "ownership by the name on the page",
        (
            ("hermes/claim/claiming.py", '    elif not work.hold.shown.get("shared"):\n', "    elif True:\n"),
            (
                "hermes/claim/claiming.py",
                "card.status is CardStatus.in_progress and card.run_id == work.hold.run_id",
                "card.status is CardStatus.in_progress and installation_of(card.claimed_by) == work.identity.installation",
            ),
        ),
    ),
    Bug(
        "no wait-out after an unknown write",
        (
            (
                "hermes/claim/desk.py",
                "                unknown_until = uow.now + wait\n",
                "                wait = timedelta(0)\n",
            ),
        ),
    ),
    Bug(
        "foreign claim taken over",
        (
            (
                "hermes/claim/offers.py",
                "            if card.status is CardStatus.todo and not card.in_trash:\n",
                "            expired = card.claim_expires_at is not None and card.claim_expires_at < asked_at\n"
                "            foreign = installation_of(card.claimed_by) not in (None, identity.installation)\n"
                "            free = card.status is CardStatus.in_progress and expired and foreign\n"
                "            if (card.status is CardStatus.todo or free) and not card.in_trash:\n",
            ),
            (
                "hermes/claim/claiming.py",
                "not card.in_trash and card.status is CardStatus.todo and not claimed_elsewhere",
                "not card.in_trash and card.status.value in ('todo', 'in_progress') and not claimed_elsewhere",
            ),
        ),
    ),
    Bug(
        "lease shorter than the wait-out",
        (
            (
                "hermes/claim/work.py",
                "    return now + 2 * board.times.wait_out\n",
                "    return now + board.times.wait_out / 4\n",
            ),
        ),
    ),
    Bug(
        "intent written after the effect",
        (
            (
                "hermes/durable/command_step.py",
                "        recorded = self._recorder.write(lambda unit: self.intend(unit, attempt, pending))\n"
                "        delivery.recorded(recorded, pending)\n"
                "        reach(CrashPoint.after_intent)\n"
                "        self._recorder.make_sure()\n"
                "        outcome = self._call(self._command.call, self._command.result, attempt)\n",
                "        self._recorder.make_sure()\n"
                "        outcome = self._call(self._command.call, self._command.result, attempt)\n"
                "        recorded = self._recorder.write(lambda unit: self.intend(unit, attempt, pending))\n"
                "        delivery.recorded(recorded, pending)\n"
                "        reach(CrashPoint.after_intent)\n",
            ),
        ),
    ),
    Bug(
        "POST retried blindly",
        (
            (
                "sources/notion/client.py",
                "        return self._send(method, path, None, body, writes=True, urgent=urgent, seconds=seconds, send_by=send_by)\n",
                "        for last in (method != 'POST', True):\n"
                "            try:\n"
                "                return self._send(\n"
                "                    method, path, None, body, writes=True, urgent=urgent, seconds=seconds, send_by=send_by\n"
                "                )\n"
                "            except UnknownOutcome:\n"
                "                if last:\n"
                "                    raise\n"
                "        raise AssertionError\n",
            ),
        ),
    ),
    Bug(
        "re-queue decided by a query alone",
        (
            (
                "hermes/claim/finish.py",
                "    elif card.status is not CardStatus.todo:\n        work.let_go(due_in=None, state=ClaimState.done)\n",
                "    elif False:\n        pass\n",
            ),
        ),
    ),
    Bug(
        "recovery only once at start",
        (
            (
                "hermes/durable/worker.py",
                '        """Free the runs of workers that are gone, ours of an earlier life among them."""\n',
                "        if getattr(self, 'rescued', False):\n            return []\n        self.rescued = True\n",
            ),
        ),
    ),
)


def plant(bug: Bug, folder: Path) -> str | None:
    """What is wrong with the table, if anything."""
    for name, old, new in bug.edits:
        file = folder / name
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"stands {text.count(old)} times in {name}: the table is out of date"
        file.write_text(text.replace(old, new), encoding="utf-8")
    return None


def hunt(bug: Bug, seeds: int) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_of_the_code(folder)
        if wrong := plant(bug, folder):
            return False, wrong
        environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [
                sys.executable,
                str(folder / "tests/sim/simulate.py"),
                f"--seeds={seeds}",
                "--processes=1",
                "--until-failure",
            ],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
    found = re.search(r"^seed (\d+): (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        return False, f"NOT FOUND in {seeds} seeds {done.stderr[-500:]}"
    return True, f"seed {found[1]}: {found[2][:110]}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="planted.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plant", type=Path, help="only make a copy with the one bug there, to look closer")
    chosen = parser.parse_args(arguments)
    bugs = [bug for bug in BUGS if not chosen.names or any(word in bug.name for word in chosen.names)]
    if chosen.plant is not None:
        copy_of_the_code(chosen.plant)
        print([plant(bug, chosen.plant) for bug in bugs])
        return 0
    missed = 0
    with ThreadPoolExecutor(chosen.processes) as pool:
        hunts = {pool.submit(hunt, bug, chosen.seeds): bug for bug in bugs}
        for over in as_completed(hunts):
            bug, (found, words) = hunts[over], over.result()
            missed += not found
            print(f"{'ok  ' if found else 'FAIL'} {bug.name:36} {words}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs were found")
    return 1 if missed or not bugs else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

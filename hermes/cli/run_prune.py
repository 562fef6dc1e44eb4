"""`runs prune`: what retention removes every night, now, or what it would remove."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from hermes.cli.exits import Code, CommandError
from hermes.cli.output import print_json, say, table
from hermes.cli.run_choice import duration
from hermes.config.duration import show_duration
from hermes.retention import Ages, Pruning

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.ports.retention import Removed

WHAT = {
    "runs": "runs whose details go; key and ending stay",
    "steps": "their steps",
    "timeline": "entries of timelines",
    "receipts": "late results",
    "board_log": "writes to cards that are done with",
    "keys": "keys: asking for them again starts a run",
    "occurrences": "runs of polls",
    "events": "events whose own time is over",
}


def prune(hermes: App, older_than: str | None, *, dry_run: bool, yes: bool, json: bool) -> None:
    ages = hermes.ages()
    if older_than is not None:
        age = duration(older_than, "--older-than")
        ages = replace(ages, runs=age, timeline=age)
        shorter = age < hermes.ages().runs
        if shorter and not dry_run and not _agreed(older_than, yes=yes, json=json):
            say("Nothing was changed.")
            return
    pruning = Pruning(hermes.store, ages, hermes.identity.boot_id, look=dry_run)
    if not pruning.work():
        raise CommandError("Another process removes what is old just now: nothing is left to do here.", Code.failed)
    if json:
        print_json({"dry_run": dry_run, "rows": _rows(pruning.removed), "text": pruning.removed.text})
    else:
        _print(pruning.removed, ages, dry_run=dry_run)


def _agreed(older_than: str, *, yes: bool, json: bool) -> bool:
    if yes:
        return True
    if json:
        raise typer.BadParameter("--json asks nothing: say --yes or --dry-run")
    question = f"Remove the details of all that ended well more than {older_than} ago? They are kept for longer by now."
    return typer.confirm(question, default=False, err=True)


def _rows(removed: Removed) -> dict[str, int]:
    return {name: removed.rows[name] for name in WHAT}


def _print(removed: Removed, ages: Ages, *, dry_run: bool) -> None:
    kept = (
        f"runs {show_duration(ages.runs)}, their timelines {show_duration(min(ages.timeline, ages.runs))}, failed ones "
        f"{show_duration(ages.failed)}, keys {'for ever' if ages.keys is None else show_duration(ages.keys)}"
    )
    if not removed.rows.total():
        say(f"Nothing is old enough. Kept are {kept}.")
        return
    table(("TABLE", "ROWS", "WHAT"), [(name, count, WHAT[name]) for name, count in _rows(removed).items() if count])
    say(f"{'Would be removed' if dry_run else 'Removed'}, with {_size(removed.text)} of text. Kept are {kept}.")


def _size(characters: int) -> str:
    for unit, length in (("MB", 1_000_000), ("kB", 1_000)):
        if characters >= length:
            return f"{characters / length:.1f} {unit}"
    return f"{characters} B"

"""What `runs resume` and `runs cancel` share when they are given several runs: choosing, asking, telling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from hermes.cli.exits import Code

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.bulk import Change
    from hermes.cli.run_choice import Choice
    from hermes.model.run import Run, RunState

SHOWN = 20
"""Runs that are named before a person is asked."""


def check(named: Sequence[str] | None, choice: Choice, *, every: bool, limit: int | None) -> None:
    """Refuses what does not say clearly which runs are meant."""
    if named and (every or limit is not None or not choice.empty):
        raise typer.BadParameter("name runs, or choose them by --all and options: not both")
    if not named and every and choice.empty:
        raise typer.BadParameter("--all goes with what chooses runs: --state, --poll, --function, --error and so on")
    if not named and not every:
        more = "" if choice.empty else "; add --all if everything that these options choose is meant"
        raise typer.BadParameter(f"say which runs{more}")


def chosen(
    hermes: App, named: Sequence[str] | None, choice: Choice, states: Sequence[RunState], limit: int | None
) -> list[Run]:
    """`states`: of which runs are chosen when the options name none. Raises NotFound."""
    from hermes.bulk import choose
    from hermes.operations import find_run

    if named:
        found = {run.id: run for run in (find_run(hermes, name) for name in named)}
        return list(found.values())
    return choose(hermes, choice.wanted(hermes, states=states), limit)


def agreed(hermes: App, what: str, runs: Sequence[Run], *, ask: bool, json: bool) -> bool:
    from hermes.cli.output import cut, say, table

    if not ask or not runs:
        return True
    if json:
        raise typer.BadParameter("--json asks nothing: say --yes or --dry-run")
    rows = [(run.id, run.state.value, run.function, cut(hermes.redactor.text(run.key), 60)) for run in runs[:SHOWN]]
    table(("RUN", "STATE", "FUNCTION", "KEY"), rows)
    if len(runs) > SHOWN:
        say(f"and {len(runs) - SHOWN} more")
    if typer.confirm(f"{what.capitalize()} {len(runs)} run(s)?", default=False, err=True):
        return True
    say("Nothing was changed.")
    return False


def do(hermes: App, what: str, changes: Iterable[Change], *, dry_run: bool, json: bool) -> None:
    """Goes on after one that could not be changed, and fails at the end."""
    from hermes.bulk import Came
    from hermes.cli.output import print_json, say

    done: list[Change] = []
    for change in changes:
        done.append(change)
        if not json:
            # What would come of it is said in the same words.
            say(f"{change.run.id}  {change.came}: {hermes.redactor.text(change.why)}")
    count = {came: sum(change.came is came for change in done) for came in Came}
    if json:
        print_json(
            {
                "asked": what,
                "dry_run": dry_run,
                **{came.value: count[came] for came in Came},
                "runs": [
                    {
                        "run": change.run.id,
                        "key": hermes.redactor.text(change.run.key),
                        "state": change.run.state.value,
                        "came": change.came.value,
                        "why": hermes.redactor.text(change.why),
                    }
                    for change in done
                ],
            }
        )
    elif not done:
        say("No such runs: nothing was changed.")
    else:
        would = "Would be" if dry_run else "In all"
        told = ", ".join(f"{count[came]} {came}" for came in Came)
        say(f"{would}: {told}.{' Nothing was changed.' if dry_run else ''}")
    if count[Came.refused]:
        raise typer.Exit(Code.failed)

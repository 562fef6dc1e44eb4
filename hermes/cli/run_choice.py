"""Options that choose runs, the same for listing them and for doing something to many at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.cli import choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.app import App
    from hermes.model.run import RunState
    from hermes.ports.survey import RunFilter

States = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="STATE",
        callback=choices.of(choices.STATES),
        help=f"Only these ({', '.join(choices.STATES)}); may be given again.",
    ),
]
Waiting = Annotated[bool, typer.Option("--waiting", help="Those that hibernate, and what for.")]
Failed = Annotated[bool, typer.Option("--failed", help="The dead letters.")]
Parked = Annotated[bool, typer.Option("--parked", help="Those that wait for a person.")]
Stuck = Annotated[
    bool, typer.Option("--stuck", help="Those that somebody should have gone on with by now, and why nobody has.")
]
UnknownFunction = Annotated[
    bool, typer.Option("--unknown-function", help="Those that are due and whose function this code does not have.")
]
OfPoll = Annotated[str | None, typer.Option("--poll", metavar="POLL", help="Started by this poll.")]
OfCard = Annotated[str | None, typer.Option("--card", metavar="CARD", help="Of this card: its id or title.")]
OfFunction = Annotated[str | None, typer.Option("--function", metavar="NAME", help="Of this function.")]
WithError = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="With this in the error or reason, whatever the case.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="WHEN", help="Changed since then: 12h, 2d, 2026-01-31, 2026-01-31T09:00Z."),
]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="TIME", help="As they are for longer than that: 12h, 2d.")
]
Effects = Annotated[bool, typer.Option("--effects", help="Also effects, which are runs of a single command.")]


class Choice:
    """What was chosen, in the words of the options."""

    def __init__(
        self,
        *,
        state: Sequence[str] | None,
        waiting: bool,
        failed: bool,
        parked: bool,
        stuck: bool,
        unknown_function: bool,
        poll: str | None,
        card: str | None,
        function: str | None,
        error: str | None,
        since: str | None,
        older_than: str | None,
        effects: bool,
    ) -> None:
        self.states = [*dict.fromkeys([*(state or ()), *_words(waiting=waiting, failed=failed, parked=parked)])]
        self.stuck = stuck
        self.unknown_function = unknown_function
        self.poll = poll
        self.card = card
        self.function = function
        self.error = error
        self.since = None if since is None else _moment(since)
        self.older_than = None if older_than is None else duration(older_than, "--older-than")
        self.effects = effects

    @property
    def empty(self) -> bool:
        """It chooses every run."""
        named = (self.poll, self.card, self.function, self.error, self.since, self.older_than)
        return not (self.states or self.stuck or self.unknown_function) and all(one is None for one in named)

    def wanted(self, app: App, *, states: Sequence[RunState] = ()) -> RunFilter:
        """`states` where none were named. Raises NotFound for a card, ConfigError for functions."""
        from hermes.model.run import RunKind, RunState
        from hermes.operations import find_card
        from hermes.ports.survey import RunFilter
        from hermes.run_lists import known_functions

        now = app.clock.now()
        since = now - self.since if isinstance(self.since, timedelta) else self.since
        return RunFilter(
            states=tuple(map(RunState, self.states)) or tuple(states),
            kinds=() if self.effects else (RunKind.card, RunKind.function),
            poll_id=self.poll,
            object_id=None if self.card is None else find_card(app, self.card),
            function=self.function,
            error=self.error,
            changed_since=since,
            changed_before=None if self.older_than is None else now - self.older_than,
            stuck_lease=app.configuration.workers.lease if self.stuck else None,
            unknown_to=known_functions(app) if self.unknown_function else None,
        )


def _words(**given: bool) -> list[str]:
    return [word for word, is_given in given.items() if is_given]


def duration(text: str, option: str) -> timedelta:
    from hermes.config.duration import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def _moment(text: str) -> timedelta | datetime:
    if text[:4].isdigit() and text[4:5] == "-":
        try:
            at = datetime.fromisoformat(text)
        except ValueError as error:
            raise typer.BadParameter(f"--since: {text!r} is no date such as 2026-01-31 or 2026-01-31T09:00Z") from error
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return duration(text, "--since")

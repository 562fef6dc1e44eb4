"""What the demo shows while it runs and when it is over: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hermes.demo.board import SeenCard
from hermes.demo.verdict import Office, met
from hermes.model.run import Run

COLOURS = {"Todo": "white", "InProgress": "yellow", "Complete": "green", "Failed": "red"}


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything there is to see at one time."""

    seconds: float
    cards: Sequence[SeenCard]
    runs: Mapping[str, Run]
    """By the card they are for."""
    office: Office


class Screen(Protocol):
    def say(self, text: str) -> None: ...

    def show(self, moment: Moment) -> None: ...

    def show_runs(self, moment: Moment) -> None: ...

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LiveScreen:
    """A table that is drawn anew."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def show(self, moment: Moment) -> None:
        self._live.update(Group(board_table(moment), _line(moment)), refresh=True)

    def show_runs(self, moment: Moment) -> None:
        self._console.print(run_table(moment))


class PlainScreen:
    """One line a change, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, moment: Moment) -> None:
        for card in moment.cards:
            before, now = self._seen.get(card.id), (card.status, card.retry_count)
            if before == now:
                continue
            self._seen[card.id] = now
            what = f"{before[0]} -> {card.status}" if before else card.status
            error = f": {card.last_error}" if card.last_error else ""
            self.say(f"{moment.seconds:5.1f} s  {card.title}  {what}{error}")

    def show_runs(self, moment: Moment) -> None:
        self.say("")
        for card in moment.cards:
            run = moment.runs.get(card.id)
            if run is not None:
                effects = moment.office.of_run(run.id)
                told = f"{run.state}, deliveries: {deliveries(run)}, effects: {effects}"
                self.say(f"run {run.id}  {told}  {card.title}")
        self.say("")


class SilentScreen:
    """For --json: the answer is all there is."""

    def __enter__(self) -> SilentScreen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str) -> None:
        return None

    def show(self, moment: Moment) -> None:
        return None

    def show_runs(self, moment: Moment) -> None:
        return None


def board_table(moment: Moment) -> Table:
    table = Table(title="Team tasks", expand=False)
    for heading in ("Card", "Priority", "Status", "Run", "Deliveries", "What happened"):
        table.add_column(heading, overflow="fold")
    for card in moment.cards:
        run = moment.runs.get(card.id)
        table.add_row(
            Text(card.title),
            card.priority,
            Text(card.status, COLOURS.get(card.status, "dim")),
            run.state.value if run else "",
            str(run.deliveries + 1) if run else "",
            Text(_happened(card, run)),
        )
    return table


def _happened(card: SeenCard, run: Run | None) -> str:
    if card.last_error:
        return card.last_error
    if run is None:
        return ""
    if isinstance(run.result, str):
        return run.result if len(run.result) < 80 else f"{len(run.result):,} characters, in its page"
    return run.reason or ""


def _line(moment: Moment) -> Text:
    counts = Counter(card.status for card in moment.cards)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    calls = len(moment.office.entries)
    return Text(f"{moment.seconds:5.1f} s   {told}   {calls} calls to the office, {len(moment.office.effects)} effects")


def run_table(moment: Moment) -> Table:
    table = Table(title="Runs")
    for heading in ("Run", "Card", "State", "Deliveries", "Effects", "As expected"):
        table.add_column(heading, overflow="fold")
    for card in moment.cards:
        run = moment.runs.get(card.id)
        if run is None:
            continue
        effects = str(moment.office.of_run(run.id))
        fine = "yes" if met(card) else "NO"
        table.add_row(run.id, Text(card.title), run.state.value, str(deliveries(run)), effects, fine)
    return table


def deliveries(run: Run) -> int:
    """How often it was delivered: those that failed, and the one that ended it."""
    return run.deliveries if run.state.value == "failed" else run.deliveries + 1

"""What can be wrong with an installation, looked at one thing after the other, each with its cure.

Changes nothing but what looking at a board notes (its name, a turn of the limiter); a database that is not there yet is
made for that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from hermes.app import App, port_answers, read_configuration
from hermes.durable.registry import REGISTRY
from hermes.errors import SourceError, StoreError
from hermes.operations import polls
from hermes.ports.polls import PollStatus

LATE = timedelta(minutes=2)
"""A poll or a card that nobody has looked at for this long after it was due: nobody is there."""
SKEW_SHOWN, SKEW_BAD = timedelta(seconds=5), timedelta(seconds=30)
FAR_SECONDS = 0.02
"""Of a question to the database and its answer."""
LOW_BYTES, FULL_BYTES = 500 * 1024**2, 20 * 1024**2


class Level(StrEnum):
    ok = "ok"
    warn = "warn"
    fail = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    about: str
    level: Level
    what: str
    cure: str = ""


def _ok(about: str, what: str) -> Check:
    return Check(about, Level.ok, what)


def _warn(about: str, what: str, cure: str = "") -> Check:
    return Check(about, Level.warn, what, cure)


def _fail(about: str, what: str, cure: str = "") -> Check:
    return Check(about, Level.fail, what, cure)


def examine(folder: Path, *, log_level: str = "error", offline: bool = False) -> Iterator[Check]:
    """Goes on for as long as what was found lets it."""
    reading = read_configuration(folder)
    configuration = reading.configuration
    for problem in reading.problems:
        yield _fail("configuration", str(problem), "mend the file; hermes-poll validate checks it again")
    if configuration is None:
        return
    zone = f"times of polls are {configuration.timezone}" + (
        " (the host's)" if configuration.timezone_from_host else ""
    )
    if not reading.problems:
        yield _ok("configuration", f"{configuration.folder}, {len(configuration.polls)} poll(s); {zone}")
    if not configuration.polls:
        yield _warn("configuration", "no poll", f"put one into {configuration.folder}/polls/")
    try:
        app = App(configuration)
    except StoreError as error:
        yield _fail("database", str(error))
        return
    try:
        app.configure_logs(level=log_level)
        usable = False
        for check in _database(app):
            usable = usable or check is _USABLE
            if check is not _USABLE:
                yield check
        yield from _ports(app)
        if usable and not offline:
            yield from board_checks(app)
            yield from _clock(app)
        if usable:
            yield from _state(app)
    finally:
        app.close()


_USABLE = _ok("database", "")
"""Says that tables can be read; not shown."""


def _database(app: App) -> Iterator[Check]:
    shown = app.shown_database()
    disk = app.database_disk()
    if disk is not None:
        yield from _disk(*disk)
    try:
        if not app.database_exists():
            app.upgrade()
            yield _ok("database", f"{shown} was not there and was made")
        app.check_integrity()
        version = app.database_version()
        pragmas = app.store.pragmas()
        if version.pending:
            yield _warn("database", f"{shown} lacks {', '.join(version.pending)}", "hermes-poll db upgrade, or up")
            return
    except StoreError as error:
        yield _fail("database", str(error))
        return
    wrong = [
        f"{name} is {pragmas[name]}, not {value}"
        for name, value in SAFE_PRAGMAS.items()
        if name in pragmas and pragmas[name] != value
    ]
    if wrong:
        yield _fail("database", "; ".join(wrong), "this is a bug of Hermes: please report it")
    server = app.store.server()
    if server is None:
        yield _ok("database", f"{shown}, version {version.at}, whole")
    else:
        away = f"{server.seconds_away * 1000:.1f} ms away"
        yield _ok("database", f"{shown}, version {version.at}; PostgreSQL {server.version}, {away}")
        if server.seconds_away > FAR_SECONDS:
            yield _warn("database", f"the server is {away}: a run makes some twenty round trips", "put them closer")
        if server.unsafe:
            off = " and ".join(server.unsafe) + (" is" if len(server.unsafe) == 1 else " are")
            cure = "switch it on, unless this is a trial: an effect could be made twice"
            yield _warn("database", f"{off} off on the server: commits can be lost at a power cut", cure)
    try:
        with app.store.write() as uow:
            uow.installation.name()
    except StoreError as error:
        yield _fail("database", f"cannot be written: {error}", "check its owner, the disk, and what holds it locked")
        return
    yield _USABLE


SAFE_PRAGMAS = {"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"}


def _disk(path: Path, kind: str | None) -> Iterator[Check]:
    free = shutil.disk_usage(path.parent).free
    size = path.stat().st_size if path.exists() else 0
    said = f"{path} has {_size(size)} on {kind or 'a file system'}, {_size(free)} free"
    if free < FULL_BYTES:
        yield _fail("disk", said, "make room: nothing can be claimed or finished on a full disk")
    elif free < LOW_BYTES:
        yield _warn("disk", said, "make room soon")
    else:
        yield _ok("disk", said)


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.0f} TB"


def _ports(app: App) -> Iterator[Check]:
    for name, connection in app.local_connections().items():
        if app.serves(name):
            yield _ok(f"connection {name}", f"the local board is served at {connection.url}")
        elif port_answers(connection.port):
            cure = "end it, or give the connection another `port:`"
            yield _fail(f"connection {name}", f"port {connection.port} is used by another program", cure)
        else:
            yield _warn(f"connection {name}", "the local board is not served now", "hermes-poll up serves it")


def board_checks(app: App) -> Iterator[Check]:
    """Every board of the configuration, asked; a local board that nobody serves is left out."""
    for name in app.configuration.boards:
        about = f"board {name}"
        connection = app.board_settings(name).connection
        local = connection in app.local_connections()
        if local and not app.serves(connection):
            continue
        try:
            board = app.reach(name)
            found = board.describe()
        except SourceError as error:
            yield _fail(about, str(error))
            continue
        columns = ", ".join(column.name for column in found.columns)
        at = found.located
        for problem in found.problems:
            yield _fail(about, problem, f"hermes-poll board init {name} shows what it would add, and adds it")
        if not found.problems:
            what = f"{at.data_source_name!r} at {app.board_page(name)} as {found.user}, {found.mode}; columns {columns}"
            yield _ok(about, what)
        if at.kind != "data source" and not local:
            yield _ok(about, f"`board:` names a {at.kind}; its data source is {at.data_source_id}")


def _clock(app: App) -> Iterator[Check]:
    """By the `Date` of what the boards have just answered: claims of several installations are compared by it."""
    asked: set[str] = set()
    for board in app.reached_boards().values():
        url, skew = board.client.connection.url, board.skew
        if url in asked or skew is None:
            continue
        asked.add(url)
        said = f"{abs(skew).total_seconds():.0f} s {'behind' if skew > timedelta(0) else 'ahead of'} {url}"
        cure = "switch on time synchronisation (NTP)"
        if abs(skew) > SKEW_BAD:
            yield _fail("clock", f"{said}: nothing is claimed on boards of `mode: shared`", cure)
        elif abs(skew) > SKEW_SHOWN:
            yield _warn("clock", said, cure)
        else:
            yield _ok("clock", f"agrees with that of {url}")


def _state(app: App) -> Iterator[Check]:
    """What the database says is not well."""
    with app.store.read() as uow:
        now = uow.now
        pauses, boards = uow.survey.pauses(), uow.survey.boards()
        stuck = uow.survey.stuck_cards(now - LATE)
        stranded = uow.runs.stranded(REGISTRY.names())
        parked = uow.survey.count_runs("parked")
        failed = uow.survey.count_runs("failed")
    for pause in pauses:
        until = pause.until.astimezone(UTC)
        yield _warn("limiter", f"limited until {until:%H:%M:%S} UTC: {pause.reason}", "nothing to do: it goes on then")
    for board in boards:
        about = f"board {board.name or board.board}"
        if board.stopped_reason:
            yield _fail(about, f"nothing is claimed: {board.stopped_reason}", f"hermes-poll board adopt {board.name}")
        if board.problem:
            yield _fail(about, board.problem, f"put it right, or hermes-poll board init {board.name}")
    yield from _polls(app, now)
    for one in stuck[:10]:
        card = one.card
        failures = f", {one.failures} board calls failed in a row" if one.failures else ""
        what = f"{card.title or card.card_id} ({card.state}) should have been looked at {_ago(now - one.due_at)} ago"
        yield _warn("card", f"{what}{failures}{f': {card.note}' if card.note else ''}", "is hermes-poll up running?")
    if len(stuck) > 10:
        yield _warn("card", f"and {len(stuck) - 10} more cards")
    for run in stranded[:10]:
        cure = "add the module to `functions:`, or hermes-poll runs cancel it"
        yield _warn("run", f"{run.id} is due and its function {run.function} is not known here", cure)
    if len(stranded) > 10:
        yield _warn("run", f"and {len(stranded) - 10} more such runs")
    if parked:
        yield _warn("runs", f"{parked} parked: each waits for a person", "hermes-poll runs list --parked")
    if failed:
        yield _warn("runs", f"{failed} failed", "hermes-poll runs list --failed; after the cure: runs resume")


def _polls(app: App, now: datetime) -> Iterator[Check]:
    found = polls(app)
    well = 0
    for view in found.views:
        poll = view.poll
        about = f"poll {poll.poll_id}"
        error = app.redactor.text(poll.last_error or "")
        if poll.status is PollStatus.disabled:
            yield _fail(about, app.redactor.text(poll.disabled_reason or "disabled"))
        elif poll.status is PollStatus.active and poll.failing_since is not None:
            since = poll.failing_since.astimezone(UTC)
            what = f"fails since {since:%Y-%m-%d %H:%M:%S} UTC ({poll.failure_count} in a row): {error}"
            yield _fail(about, what) if poll.fatal_count else _warn(about, what, "it is tried again until it works")
        elif poll.status is PollStatus.paused:
            yield _warn(about, "is paused", f"hermes-poll polls resume {poll.poll_id}")
        elif poll.status is PollStatus.active and poll.next_start_at is not None and now - poll.next_start_at > LATE:
            late = _ago(now - poll.next_start_at)
            yield _warn(
                about, f"was due {late} ago and nobody has run it", "start hermes-poll up, or a timer of run-once"
            )
        else:
            well += 1
    if well:
        yield _ok("polls", f"{well} as they should be")
    if found.unstarted:
        yield _warn("polls", f"{', '.join(found.unstarted)}: no process has seen them yet", "start hermes-poll up")


def _ago(span: timedelta) -> str:
    minutes = span.total_seconds() / 60
    return (
        f"{minutes:.0f} m"
        if minutes < 120
        else f"{minutes / 60:.0f} h"
        if minutes < 2880
        else f"{minutes / 1440:.0f} d"
    )

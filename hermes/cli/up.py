"""`up`: the process that does the work, until a signal ends it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from hermes.cli import choices
from hermes.cli.context import working_app

if TYPE_CHECKING:
    from hermes.app import App
    from hermes.process import Process


def up(
    ctx: typer.Context,
    role: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="|".join(choices.ROLES),
            callback=choices.of(choices.ROLES),
            help="Only this part; may be given again. Left out: all of them in one process.",
        ),
    ] = None,
) -> None:
    """Do the work until it is stopped: watch boards, claim cards, run them, serve the local board and the API.

    SIGTERM or Ctrl+C drains: what runs is finished or handed back, and the process exits with 0. A second one ends it
    at once; its runs are taken over by the next process.
    """
    from hermes.process import ALL_ROLES, Process, Role

    with signals() as stop, working_app(ctx) as app:
        roles = frozenset(map(Role, role)) if role else ALL_ROLES
        if role and Role.web in roles and app.configuration.api is None:
            raise typer.BadParameter("--role web serves the API: hermes.yaml needs a section `api:` (docs/api.md)")
        process = Process(app, roles)
        try:
            process.start()
            _greet(app, process)
            stop.wait()
        finally:
            process.stop()


@contextmanager
def signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the second of them ends the process there and then.

    A handler in Python runs when the main thread comes to it, and one that has just decided to wait at a lock does not
    before it gets that lock: such a signal would be lost. So what the interpreter writes at the signal itself is read
    by a thread of its own.
    """
    stop = threading.Event()
    readable, writable = os.pipe()
    os.set_blocking(writable, False)

    def listen() -> None:
        while received := os.read(readable, 16):  # one byte a signal, its number
            if stop.is_set() or len(received) > 1:
                os._exit(128 + received[-1])
            stop.set()

    listener = threading.Thread(target=listen, name="hermes-signals", daemon=True)
    listener.start()
    wakeup_before = signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    before = {number: signal.signal(number, _noticed) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup_before)
        os.close(writable)  # the listener reads the end
        listener.join()
        os.close(readable)


def _noticed(_number: int, _frame: FrameType | None) -> None:
    """A handler there must be, or the signal does what it does by default."""


def _greet(app: App, process: Process) -> None:
    """Where things are."""
    from hermes.cli.output import STATES, near, say, table
    from hermes.process import ALL_ROLES

    with app.store.read() as unit:
        polls, now = unit.polls.all(), unit.now
    who = app.identity
    say(
        f"Hermes is up as {who.installation}:{who.boot_id}. Ctrl+C drains and ends it.",
        f"  configuration  {app.configuration.folder}",
        f"  database       {app.shown_database()}",
    )
    if process.roles != ALL_ROLES:
        say(f"  roles          {', '.join(sorted(process.roles))}")
    if app.configuration.api is not None and "web" in process.roles:
        from hermes.api.server import url_of

        say(f"  API            {url_of(app.configuration.api)}/openapi.json")
    if process.scheduler is None:
        for connection in app.local_connections().values() if "board" in process.roles else ():
            say(f"  local board    {connection.url}/")
        return
    reached = {board.name: board for board in app.reached_boards().values()}
    for name in app.configuration.boards:
        where = app.board_page(name) if name in reached else "cannot be reached yet: hermes-poll doctor says why"
        say(f"  board          {name}: {where}")
    if not polls:
        say("  no polls       put one into the polls/ folder of the configuration; it is read at once")
    else:
        rows = [(poll.poll_id, poll.health, near(poll.next_start_at, now)) for poll in polls]
        table(("POLL", "HEALTH", "NEXT"), rows, styles=STATES)

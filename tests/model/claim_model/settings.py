"""A configuration of the model: who is there, how long things take, what may go wrong, and the rules in force."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from claim_model.values import Budget


class Mode(StrEnum):
    exclusive = "exclusive"
    """Known to be alone on the board."""
    newcomer = "newcomer"
    """Exclusive, but no whole poll has shown yet that it is alone: claims by the shared protocol."""
    shared = "shared"


class Begin(StrEnum):
    """How the card stands when a world begins."""

    new = "new"
    parked = "parked"
    """Database 0 has parked its run, a step of which may have acted, and shown that it needs attention."""
    foreign = "foreign"
    """Claimed by an installation that is not in the model; nobody knows whether it still lives."""


@dataclass(frozen=True)
class Rules:
    """Each can be taken out; `cases.py` has the table."""

    get_before_claim: bool = True
    guard: bool = True
    read_back: bool = True
    late_claim_not_started: bool = True
    name_is_not_ownership: bool = True
    expired_foreign_not_taken: bool = True
    wait_out: bool = True
    send_by: bool = True
    hold_during_write: bool = True
    fence: bool = True
    run_fence: bool = True
    intent: bool = True
    intent_is_final: bool = True
    started_stays_claimed: bool = True
    reclaim_settles: bool = True
    requeue_by_get: bool = True
    requeue_by_log: bool = True
    log_before_send: bool = True
    forgotten_by_get: bool = True
    explained_by_all_values: bool = True
    """A logged write explains only a page that shows all it says."""
    hold_has_an_end: bool = True
    """What is decided under a hold is written before `held_until` or not at all."""
    trashed_claim_is_kept: bool = True
    """The row of an interrupted claim keeps its RunId while the card is in the trash."""
    resume_from_todo_alone: bool = True
    """A run that the board asked to go on is claimed from Todo alone: not from the attention we have shown since."""
    get_before_ending: bool = True
    stop_before_again: bool = True
    stranger_stops: bool = True
    heartbeat: bool = True
    abandoned_is_shown: bool = True


@dataclass(frozen=True)
class Thread:
    database: int
    desk: bool = True
    worker: bool = True


@dataclass(frozen=True)
class Settings:
    """Durations in ticks; "longer than 1" is 2. `z` is how long a write without an answer may still land in truth,
    `wait_out` what the protocol takes it to be: Z."""

    modes: tuple[Mode, ...]
    """By database: one installation each."""
    threads: tuple[Thread, ...]
    budget: Budget = field(default_factory=Budget)
    z: int = 1
    guard: int = 1
    settle: int = 2
    wait_out: int = 2
    hold: int = 4
    hint: int = 1
    query_lag: int = 0
    lease: int = 0
    """0: every claim has expired at once, as far as others can see."""
    grace: bool = True
    """Nobody takes a claim of another installation for abandoned: its expiry is not a lease ago."""
    slow_queries: bool = False
    """A thread may stand still between a query's answer and recording it."""
    punctual: bool = False
    """Looks and heartbeats come in time; only claims and the work itself may stand still."""
    window: int = 0
    """Ticks after which a person's move must be safe from what was decided before it. 0: not judged."""
    begin: Begin = Begin.new
    rules: Rules = field(default_factory=Rules)

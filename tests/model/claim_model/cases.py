"""Every rule of the protocol, and the smallest configuration in which the model notices that it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from claim_model.settings import Begin, Mode, Settings, Thread
from claim_model.values import Budget

PROPERTIES = {
    "EFF": "one asking has at most one effect, at a receiver that does not dedupe",
    "ME": "never are two runs of one asking about to act",
    "PEOPLE": "what a person put there is not overwritten by a write that was decided on a GET which showed it",
    "ASKED": "a run is started anew only for a new asking by a person",
    "HAND": "a run is stopped only when a person has touched the card",
    "WINDOW": "a person's move of which nobody knew is overwritten only soon after it was made",
    "KNOWN": "an installation never takes a claim of its own for that of a restored database",
    "STOP": "an exclusive installation that has seen another's claim claims nothing",
    "FENCE": "a holder that has been passed writes nothing into the database",
    "LIVE": "from everywhere a way without faults leads to a card that is over, or that shows people why not",
}

E, N, S = Mode.exclusive, Mode.newcomer, Mode.shared
RIVALS = Settings(modes=(S, S), threads=(Thread(0), Thread(1)))
ONE = Settings(modes=(E,), threads=(Thread(0),))
PEERS = Settings(modes=(E,), threads=(Thread(0), Thread(0)))


def with_budget(settings: Settings, **budget: int) -> Settings:
    return replace(settings, budget=Budget(**budget))


@dataclass(frozen=True)
class Rule:
    name: str
    where: str
    """The code that keeps it."""
    world: Settings
    breaks: str
    """The property that fails without it."""
    rules: Mapping[str, bool] = field(default_factory=dict)
    """How it is taken out: of `Rules`..."""
    times: Mapping[str, Any] = field(default_factory=dict)
    """... or of the durations."""

    def without(self) -> Settings:
        return replace(self.world, rules=replace(self.world.rules, **self.rules), **self.times)


def off(*names: str) -> dict[str, bool]:
    return dict.fromkeys(names, False)


CLAIMING, WRITING, DESK = "hermes/claim/claiming.py", "hermes/claim/writing.py", "hermes/claim/desk.py"
FINISH, RETRY, UPKEEP = "hermes/claim/finish.py", "hermes/claim/retry.py", "hermes/claim/upkeep.py"
OFFERS, STORE, DURABLE = "hermes/claim/offers.py", "store/claims.py", "hermes/durable"

RULES = [
    Rule("settle longer than W", f"{CLAIMING}:claim_among_rivals", RIVALS, "EFF", times={"settle": 1}),
    Rule("guard W", f"{CLAIMING}:claim_among_rivals", RIVALS, "EFF", off("guard")),
    Rule("read the claim back", f"{CLAIMING}:settle", RIVALS, "EFF", off("read_back")),
    Rule("GET before the claim", f"{CLAIMING}:claim", RIVALS, "EFF", off("get_before_claim")),
    Rule("a late claim is not started", f"{CLAIMING}:unread", RIVALS, "EFF", off("late_claim_not_started")),
    Rule("an expired foreign claim is not taken", f"{OFFERS}:take_in", RIVALS, "EFF", off("expired_foreign_not_taken")),
    Rule("wait out Z", f"{DESK}:_postpone", with_budget(ONE, timeouts=1), "LIVE", off("wait_out")),
    Rule("hold during a write", f"{WRITING}:write_card", PEERS, "LIVE", off("hold_during_write")),
    Rule("hold longer than a write lasts", "hermes/claim/work.py:hold_end", PEERS, "LIVE", times={"hold": 2}),
    Rule("send_by", f"{WRITING}:_send_by", PEERS, "LIVE", off("send_by")),
    Rule("fence of the hold", f"{STORE}:_change", PEERS, "FENCE", off("fence")),
    Rule("fence of the run", f"{DURABLE}/recorder.py", with_budget(PEERS, suspensions=1), "FENCE", off("run_fence")),
    Rule("intent before effect", f"{DURABLE}/command_step.py", with_budget(ONE, kills=1), "EFF", off("intent")),
    Rule(
        "an intent without a result is for people",
        f"{DURABLE}/command_step.py",
        with_budget(ONE, kills=1),
        "EFF",
        off("intent_is_final"),
    ),
    Rule(
        "our name on the page is not ownership",
        f"{OFFERS}:strange_claim",
        with_budget(ONE, restores=1),
        "EFF",
        off("name_is_not_ownership"),
    ),
    Rule(
        "a started card of a shared board stays claimed",
        f"{RETRY}:never_in_todo",
        with_budget(RIVALS, failures=1),
        "EFF",
        off("started_stays_claimed"),
    ),
    Rule(
        "a parked card settles before it goes on",
        f"{RETRY}:reclaim",
        with_budget(replace(RIVALS, begin=Begin.parked), people=1),
        "EFF",
        off("reclaim_settles"),
    ),
    Rule(
        "a parked card is claimed again from Todo alone",
        f"{RETRY}:reclaim",
        with_budget(replace(RIVALS, begin=Begin.parked), people=1),
        "ME",
        off("resume_from_todo_alone"),
    ),
    Rule(
        "a query alone asks for nothing again",
        f"{OFFERS}:_take_in_todo",
        replace(ONE, query_lag=2),
        "ASKED",
        off("requeue_by_get"),
    ),
    Rule(
        "the log explains late writes",
        f"{FINISH}:_late_write_of_ours",
        with_budget(ONE, kills=1, failures=1, cancels=1),
        "ASKED",
        off("requeue_by_log"),
    ),
    Rule(
        "log before send",
        f"{WRITING}:write_card",
        with_budget(ONE, kills=1, failures=1, cancels=1),
        "ASKED",
        off("log_before_send"),
    ),
    Rule("GET before the ending", f"{FINISH}:finish", with_budget(ONE, people=1), "PEOPLE", off("get_before_ending")),
    Rule(
        "the run stops before its card is asked for again",
        f"{UPKEEP}:_observe",
        with_budget(replace(ONE, threads=(Thread(0), Thread(0, desk=False))), people=1),
        "ME",
        off("stop_before_again"),
    ),
    Rule(
        "a claim is extended while its run lives",
        "hermes/claim/expiry.py:must_extend",
        replace(RIVALS, lease=6, punctual=True),
        "HAND",
        off("heartbeat"),
    ),
    Rule(
        "an abandoned claim is shown to people",
        f"{OFFERS}:_abandoned",
        replace(ONE, modes=(S,), begin=Begin.foreign, grace=False),
        "LIVE",
        off("abandoned_is_shown"),
    ),
    Rule(
        "a GET confirms a claim that would stop the board",
        f"{OFFERS}:_confirmed",
        with_budget(replace(ONE, query_lag=1), timeouts=1, people=1),
        "KNOWN",
        off("forgotten_by_get"),
    ),
    Rule(
        "another installation stops claiming",
        f"{OFFERS}:strange_claim",
        with_budget(replace(ONE, begin=Begin.foreign), people=1),
        "STOP",
        off("stranger_stops"),
    ),
    Rule(
        "the log explains only a page that shows all it says",
        "hermes/claim/people.py:explained",
        with_budget(ONE, kills=1, failures=1, people=1),
        "PEOPLE",
        off("explained_by_all_values"),
    ),
    Rule(
        "nothing is decided to be written after its hold",
        f"{STORE}:log",
        with_budget(replace(ONE, window=12), people=1),
        "WINDOW",
        off("hold_has_an_end"),
    ),
    Rule(
        "a claim in the trash is remembered",
        f"{CLAIMING}:_not_ours",
        with_budget(ONE, kills=1, people=2),
        "KNOWN",
        off("trashed_claim_is_kept"),
    ),
]


@dataclass(frozen=True)
class Limit:
    """Where the code as it is breaks a property: known, written down, and left."""

    name: str
    world: Settings
    breaks: str
    why: str


LIMITS = [
    Limit(
        "a lost answer while a card waits in Todo hides a person's move to Todo after `runs cancel`",
        with_budget(ONE, timeouts=1, failures=1, people=1, cancels=1),
        "PEOPLE",
        "hermes/claim/work.py:expected_status: a card in backoff is expected in Todo, also when a claim or an ending "
        "of ours had landed and a person has moved it since; LastError and RunId would tell the two apart",
    ),
    Limit(
        "two installations on one board, one exclusive and known to be alone, the other just started",
        replace(RIVALS, modes=(E, N)),
        "EFF",
        "the exclusive one starts by its claim's answer and does not read it back; the other one's claim, decided on a "
        "GET of just before, lands over it and settles. Not promised: both stop at the next poll",
    ),
    Limit(
        "a rival that stands still for longer than its claim lasts",
        RIVALS,
        "HAND",
        "an unfinished claim that expired is shown as needing attention, also over a rival that had no time to put its "
        "name back: its run stops, and a person decides",
    ),
]

LARGE = {
    "one exclusive, all faults": with_budget(ONE, kills=1, timeouts=1, suspensions=1, people=1, edits=1, failures=1),
    "one exclusive, all moves": with_budget(ONE, people=2, edits=1, failures=2),
    "one exclusive, cancelled runs": with_budget(ONE, kills=1, timeouts=1, edits=1, cancels=1, failures=1),
    "one exclusive, people three times": with_budget(ONE, kills=1, people=3),
    "one exclusive, stale and slow queries": with_budget(
        replace(ONE, query_lag=2, slow_queries=True), kills=1, people=1, failures=1
    ),
    "two processes, kill, time-out": with_budget(PEERS, kills=1, timeouts=1),
    "two processes, kill, suspension, failure": with_budget(PEERS, kills=1, suspensions=1, failures=1),
    "two processes, people": with_budget(PEERS, kills=1, people=1, extends=1),
    "two processes of a shared board": with_budget(replace(PEERS, modes=(S,)), kills=1, timeouts=1),
    "rivals, kill": with_budget(RIVALS, kills=1),
    "rivals, two time-outs": with_budget(RIVALS, timeouts=2),
    "rivals, kill, time-out": with_budget(RIVALS, kills=1, timeouts=1),
    "rivals, people": with_budget(RIVALS, people=1),
    "rivals, failure, kill": with_budget(RIVALS, failures=1, kills=1),
    "rivals, stale queries": replace(RIVALS, query_lag=2),
    "rivals, W=2, settle=3": replace(RIVALS, guard=2, settle=3),
    "rivals, leases, heartbeats in time": replace(RIVALS, lease=6, punctual=True, guard=2, settle=3),
    "rivals, parked card, kill, time-out": with_budget(
        replace(RIVALS, begin=Begin.parked), people=1, kills=1, timeouts=1
    ),
    "rivals, abandoned claims": replace(RIVALS, grace=False),
    "two processes and a rival": replace(RIVALS, threads=(Thread(0), Thread(0), Thread(1))),
    "three rivals": replace(RIVALS, modes=(S, S, S), threads=(Thread(0), Thread(1), Thread(2))),
}
"""Too large for every day: `make model`."""


def judged(settings: Settings) -> frozenset[str]:
    """What must hold: everything, but where claims count as expired at once, a rival is always late (`LIMITS`)."""
    everything = frozenset(PROPERTIES)
    return everything if settings.lease or len(settings.modes) == 1 else everything - {"HAND"}

"""One write to a card: logged before it is sent, sent once, its outcome recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from hermes.claim.work import Work
from hermes.crash_points import CrashPoint, reach
from hermes.errors import Fatal, SourceError, UnknownOutcome
from hermes.model.card import Card, CardValues
from hermes.model.claim import WriteKind
from hermes.model.json import JSON

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Written:
    """An acknowledged write; `log_id` is recorded as applied in the transaction that acts on it."""

    card: Card
    log_id: int


def write_card(
    work: Work,
    kind: WriteKind,
    values: CardValues,
    *,
    send_by: float | None = None,
    landed: Callable[[Card], bool] | None = None,
) -> Written:
    """Raises what the board raises, with the outcome in the log; `StaleHold` when the row is another's by now.

    `landed` says of a page that this write, and no other, has made it so. Where the answer is lost the page is then
    read once: shows it the write, that is its answer."""
    latest = _send_by(work)
    latest = latest if send_by is None else min(send_by, latest)
    with work.store.write() as uow:
        log_id = uow.claims.log(work.hold, kind, as_json(values), work.hold_end(uow.now))
    reach(CrashPoint.claim_sent if kind is WriteKind.claim else CrashPoint.finish_sent)
    try:
        card = _recorded(work, log_id, lambda: work.board.write(work.hold.card_id, values, send_by=latest))
    except UnknownOutcome:
        seen = _read_back(work) if landed is not None else None
        if seen is None or landed is None or not landed(seen):
            raise
        card = seen
    return Written(card, log_id)


def _read_back(work: Work) -> Card | None:
    try:
        return work.board.read(work.hold.card_id)
    except SourceError:
        return None


def write_text(work: Work, kind: WriteKind, about: str, send: Callable[[str, bool, float], None]) -> None:
    """A result or a comment, once for each run and `about`. `send(marker, again, send_by)` is the board's call; a text
    that may have been sent before the process died or the answer was lost is looked for first. Done already: nothing
    happens. Refused for what is in this page: it is left out, and `runs show` has it; the ending matters more."""
    marker = f"{work.hold.run_id}/{about}"
    stage = work.shown.get(about)
    if stage in ("done", "refused"):
        return
    send_by = _send_by(work)
    with work.store.write() as uow:
        log_id = uow.claims.log(work.hold, kind, {}, work.hold_end(uow.now))
        work.shown[about] = "sent"
        uow.claims.update(work.hold, shown=dict(work.shown))
    try:
        _recorded(work, log_id, lambda: send(marker, stage == "sent", send_by))
    except SourceError as error:
        if not concerns_one_card(error):
            raise
        work.log.warning("a text for the page was refused and is left out", about=about, error=str(error))
        work.shown[about] = "refused"
    else:
        work.shown[about] = "done"
    with work.store.write() as uow:
        if work.shown[about] == "done":
            uow.claims.log_outcome(log_id, "applied")
        uow.claims.update(work.hold, shown=dict(work.shown))


def concerns_one_card(error: SourceError) -> bool:
    """A refusal of a page's text that says nothing about the credential, the columns or the board: others must not
    wait for it."""
    return type(error) is Fatal


def _send_by(work: Work) -> float:
    """Boot seconds. The hold lasts for twice the wait-out from the logging on: what leaves within the first lands, if
    at all, before the next holder reads the page. A process that was suspended in between finds its time over."""
    return work.clock.boot_seconds() + work.board.times.wait_out.total_seconds()


def _recorded(work: Work, log_id: int, send: Callable[[], Answer]) -> Answer:
    try:
        return send()
    except SourceError as error:
        outcome = "unknown" if isinstance(error, UnknownOutcome) else "not_applied"
        with work.store.write() as uow:
            uow.claims.log_outcome(log_id, outcome, str(error)[:500])
        raise


def as_json(values: CardValues) -> dict[str, JSON]:
    out: dict[str, JSON] = {}
    for key, value in values.items():
        out[key] = value.isoformat() if isinstance(value, datetime) else value  # type: ignore[assignment]
    return out

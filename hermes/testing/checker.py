"""What must hold for the cards of a trial once things are quiet, judged from the outside. See FAILURES.md, I1 to I7."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from hermes.testing.trial import Trial


def problems(trial: Trial, card_ids: Collection[str], *, effects: int, status: str = "Complete") -> list[str]:
    """In plain words, nothing when all is well. Each card has one run that made `effects` effects, once each, at places
    1 to `effects`, and ended in `status`."""
    return [
        *_integrity(trial),
        *_board_and_database(trial, card_ids, status),
        *_effects(trial, card_ids, effects),
        *_claims(trial, card_ids),
        *_timers(trial),
    ]


def _integrity(trial: Trial) -> list[str]:
    if trial.on_postgres:
        return []  # there is no such question to ask a server; its page checksums speak up by themselves
    found = [str(row) for row in trial.rows("PRAGMA integrity_check") if row["integrity_check"] != "ok"]
    found += [f"foreign key: {row}" for row in trial.rows("PRAGMA foreign_key_check")]
    return found


def _board_and_database(trial: Trial, card_ids: Collection[str], status: str) -> list[str]:
    found = []
    cards, rows = trial.cards(), {row["card_id"]: row for row in trial.rows("SELECT * FROM cards")}
    runs = defaultdict(list)
    for run in trial.rows("SELECT * FROM runs WHERE kind = 'card'"):
        runs[run["object_id"]].append(run)
    for card_id in card_ids:
        card, row, own = cards[card_id], rows.get(card_id), runs[card_id]
        name = f"{card['Name']} ({card_id})"
        if card["Status"] != status:
            found.append(f"{name}: is {card['Status']}, not {status} ({card['LastError']})")
        if status == "Complete" and card["LastError"]:
            found.append(f"{name}: complete with LastError {card['LastError']!r}")
        if card["ClaimExpiresAt"] is not None:
            found.append(f"{name}: its claim still expires at {card['ClaimExpiresAt']}")
        if len(own) != 1:
            found.append(f"{name}: {len(own)} runs instead of one")
            continue
        if card["RunId"] != own[0]["id"]:
            found.append(f"{name}: shows run {card['RunId']}, its run is {own[0]['id']}")
        if status == "Complete" and own[0]["state"] != "succeeded":
            found.append(f"{name}: complete, but its run is {own[0]['state']}")
        if row is None or row["state"] != "done" or row["run_id"] != own[0]["id"] or row["holder"] is not None:
            found.append(f"{name}: its row is not closed: {row and {k: row[k] for k in ('state', 'run_id', 'holder')}}")
    found += [f"a place is still taken: {row}" for row in trial.rows("SELECT * FROM places WHERE run_id IS NOT NULL")]
    return found


def _effects(trial: Trial, card_ids: Collection[str], effects: int) -> list[str]:
    """The recorder's log against the cards: each effect once, by the key and by what it is for."""
    found = []
    log = [entry for entry in trial.log() if entry.changed]
    by_key = Counter(entry.key for entry in log)
    by_purpose = Counter((entry.body["card"], entry.body["place"]) for entry in log)
    run_ids = defaultdict(set)
    for entry in log:
        run_ids[entry.body["card"]].add(entry.key.partition(":")[0])
    found += [f"the effect of key {key} happened {count} times" for key, count in by_key.items() if count != 1]
    for card_id in card_ids:
        for place in range(1, effects + 1):
            if by_purpose[card_id, place] != 1:
                found.append(f"effect {place} of card {card_id} happened {by_purpose[card_id, place]} times")
        if len(run_ids[card_id]) > 1:
            found.append(f"card {card_id}: effects of {len(run_ids[card_id])} runs")
    if len(by_key) != len(card_ids) * effects:
        found.append(f"{len(by_key)} keys at the recorder instead of {len(card_ids) * effects}")
    return found


def _claims(trial: Trial, card_ids: Collection[str]) -> list[str]:
    """One RunId a card, in all that ever landed on the board."""
    found = []
    writes = trial.writes(landed=True)
    for card_id in card_ids:
        run_ids = {values["RunId"] for values in writes.get(card_id, []) if values.get("RunId")}
        if len(run_ids) != 1:
            found.append(f"card {card_id}: {len(run_ids)} RunIds were written to it: {sorted(run_ids)}")
    return found


def _timers(trial: Trial) -> list[str]:
    """What follows a delay began after it was due."""
    early = trial.rows(
        "SELECT d.run_id, d.seq, d.due_at, s.first_attempt_at FROM steps d JOIN steps s ON s.run_id = d.run_id "
        "AND s.seq = d.seq + 1 WHERE d.kind = 'delay' AND s.first_attempt_at < d.due_at"
    )
    return [f"a delay ended early: {row}" for row in early]

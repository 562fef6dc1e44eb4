"""What must hold once a world is quiet, judged by the services, the person's own record, the board and plain SQL."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sources.board.store import Node

if TYPE_CHECKING:
    from simulation.world import World

OPEN = ("Todo", "InProgress", None)


def unsettled(world: World) -> list[str]:
    """What is still under way."""
    found = []
    if world.network.under_way or world.services.under_way:
        found.append("requests are under way")
    for card_id in world.person.asked:
        shown = world.person.look(card_id)
        if shown["status"] in OPEN and not _theirs_alone(world, shown):
            found.append(f"card {card_id} is {shown['status']}")
    for installation in _living(world):
        with world.rows(installation) as read:
            found += [
                f"{installation}: run {run_id} ({key}) is {state}"
                for run_id, key, state in read(
                    "SELECT id, key, state FROM runs WHERE state IN ('ready', 'waiting', 'running')"
                )
            ]
            found += [
                f"{installation}: the row of card {card} is {state}, held by {holder}"
                for card, state, holder in read(
                    "SELECT card_id, state, holder FROM cards WHERE holder IS NOT NULL "
                    "OR state IN ('claiming', 'settling', 'claimed', 'backoff')"
                )
            ]
    return found


def _theirs_alone(world: World, shown: dict[str, Any]) -> bool:
    """A person has put their name over a claim whose maker is gone: the card is theirs (PROTOCOL.md)."""
    return world.vanishes and shown["status"] == "InProgress" and shown["by"] == "Ann"


def problems(world: World) -> list[str]:
    """In plain words; nothing when all is well."""
    return [
        *_databases(world),
        *_effects(world),
        *_runs(world),
        *_texts(world),
        *_board(world),
    ]


def _living(world: World) -> list[str]:
    return [i.name for i in world.installations if not (world.vanishes and i.name == "theirs")]


def _databases(world: World) -> list[str]:
    found = []
    for installation in (i.name for i in world.installations):
        with world.rows(installation) as read:
            found += [
                f"{installation}: integrity: {row[0]}" for row in read("PRAGMA integrity_check") if row[0] != "ok"
            ]
            found += [f"{installation}: foreign key: {row}" for row in read("PRAGMA foreign_key_check")]
            if installation in _living(world):
                found += [
                    f"{installation}: place of {group} is taken by {run}"
                    for group, run in read("SELECT place_group, run_id FROM places WHERE run_id IS NOT NULL")
                ]
                found += [
                    f"{installation}: {run} waits for an event and is {state}"
                    for run, state in read(
                        "SELECT runs.id, runs.state FROM waits JOIN runs ON runs.id = waits.run_id "
                        "WHERE runs.state NOT IN ('ready', 'waiting', 'running')"
                    )
                ]
                found += [
                    f"{installation}: {run} is {state} and owned by {owner}"
                    for run, state, owner in read("SELECT id, state, owner FROM runs WHERE owner IS NOT NULL")
                ]
            doubled = read("SELECT key, count(*) FROM runs GROUP BY key HAVING count(*) > 1")
            found += [f"{installation}: {count} runs under the key {key}" for key, count in doubled]
    return found


def _effects(world: World) -> list[str]:
    """Keyed: once for each purpose of a run's key. Checkable and naive: at most once."""
    made = world.services.changes
    found = [f"{what} ran again, though its result was recorded" for what in world.services.again]
    found += [
        f"{installation}: event {event} was given to {len(runs)} runs"
        for (installation, event), runs in world.services.taken.items()
        if len(runs) > 1
    ]
    times = Counter((change.kind, change.installation, change.run_key, change.purpose) for change in made)
    found += [
        f"{kind} effect {purpose} of {key} ({installation}) happened {count} times"
        for (kind, installation, key, purpose), count in times.items()
        if count > 1
    ]
    for installation in _living(world):
        with world.rows(installation) as read:
            ended = read("SELECT id, key, object_id FROM runs WHERE state = 'succeeded'")
        for run_id, key, card_id in ended:
            if card_id is None:
                wanted = {("keyed", f"{key}#1"), ("checkable", f"{key}#2")}
            else:
                words = enumerate(world.person.programs[card_id].split(), 1)
                wanted = {(w, f"{card_id}#{n}") for n, w in words if w in ("keyed", "checkable", "naive")}
            have = {(change.kind, change.purpose) for change in made if change.run_id == run_id}
            found += [f"run {key} succeeded without {kind} {purpose}" for kind, purpose in sorted(wanted - have)]
    return found


def _runs(world: World) -> list[str]:
    """One run for each asking, by whoever; in one installation never two of a card at once; one run for a key."""
    found = []
    first: dict[tuple[str, str], float] = {}
    installation_of: dict[str, str] = {}
    runs_of_key: dict[tuple[str, str], set[str]] = defaultdict(set)
    for begun in world.services.begun:
        first.setdefault((begun.about, begun.run_id), begun.at)
        installation_of[begun.run_id] = begun.installation
        runs_of_key[begun.installation, begun.run_key].add(begun.run_id)
    found += [
        f"{installation}: {len(runs)} runs have worked under the key {key}"
        for (installation, key), runs in runs_of_key.items()
        if len(runs) > 1
    ]
    by_card: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (about, run_id), at in first.items():
        by_card[about].append((at, run_id))
    for card_id, asked in world.person.asked.items():
        for number, (at, _) in enumerate(sorted(by_card[card_id]), 1):
            allowed = sum(1 for instant in asked if instant <= at)
            if number > allowed:
                who = [f"{installation_of[run]} {run[:8]} at {when:.1f}" for when, run in sorted(by_card[card_id])]
                found.append(f"card {card_id}: {number} runs by {at:.1f}, asked for {allowed} times: {', '.join(who)}")
                break
    newest: dict[tuple[str, str], str] = {}
    for begun in world.services.begun:
        seen = newest.setdefault((begun.installation, begun.about), begun.run_id)
        if seen != begun.run_id:
            if first[begun.about, begun.run_id] < first[begun.about, seen]:
                found.append(f"{begun.about}: run {begun.run_id} went on at {begun.at:.1f} after {seen} had begun")
            newest[begun.installation, begun.about] = begun.run_id
    return found


def _texts(world: World) -> list[str]:
    """A comment and a result once each."""
    found = []
    for card_id in world.person.asked:
        texts = [_text(node) for node in world.board.store.children(card_id, "comment", "block")]
        markers = Counter(word for text in texts for word in text.split() if word.startswith("[hermes:"))
        found += [f"card {card_id}: {count} times {marker}" for marker, count in markers.items() if count > 1]
    return found


def _text(node: Node) -> str:
    return str(node.body).replace("[hermes:", " [hermes:").replace("]", "] ")


def _board(world: World) -> list[str]:
    """A card that nobody touched shows how its run ended."""
    found = []
    states: dict[str, str] = {}
    for installation in _living(world):  # what the others did last they may not have shown
        with world.rows(installation) as read:
            states |= dict(read("SELECT id, state FROM runs"))
    for card_id in world.person.asked:
        shown = world.person.look(card_id)
        if world.person.touched[card_id] or (world.shared and world.sleeps):
            continue  # an expired claim is shown to people while its maker stands still: not promised
        if shown["until"] is not None and not world.vanishes:
            found.append(f"card {card_id} is {shown['status']} and its claim expires at {shown['until']}")
        state = states.get(shown["run_id"] or "")
        if state is None and world.vanishes:
            continue  # the run of an installation that is gone
        if (shown["status"] == "Complete") != (state == "succeeded"):
            found.append(f"card {card_id} is {shown['status']}, its run {shown['run_id']} is {state}")
        quiet = world.deaths == 0 and world.suspensions == 0 and not world.vanishes and not world.faulty
        if quiet and "refuse" not in world.person.programs[card_id] and shown["status"] != "Complete":
            found.append(f"nothing was amiss, and card {card_id} is {shown['status']}: {shown['error']}")
    return found

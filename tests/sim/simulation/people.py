"""A person at the board, and what they have asked for: their own record, by which runs are judged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from simulation.effects import Services
from simulation.network import Network
from simulation.schedule import Schedule

WORDS = (
    *("keyed", "keyed", "keyed", "checkable", "naive", "naive"),
    *("delay:4", "delay:40", "again:1", "event", "race", "refuse"),
)
SHOWN = {"Status": "status", "ClaimedBy": "by", "RunId": "run_id", "LastError": "error", "ClaimExpiresAt": "until"}
OTHER_PLACES = ("Cancelled", "Complete", "Failed")


@dataclass
class Person:
    schedule: Schedule
    network: Network
    services: Services
    board_id: str
    asked: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By card, each time a new run of it has become allowed: added, moved to Todo, edited, restored."""
    touched: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    programs: dict[str, str] = field(default_factory=dict)

    def add(self, title: str, words: int) -> str:
        random = self.schedule.random
        program = " ".join(random.choice(WORDS[:-1] if random.random() < 0.9 else WORDS) for _ in range(words))
        properties = {
            "Name": {"title": [{"text": {"content": title}}]},
            "Status": {"select": {"name": "Todo"}},
            "Description": {"rich_text": [{"text": {"content": program}}]},
            "Priority": {"select": {"name": random.choice(("High", "Low"))}},
        }
        parent = {"type": "data_source_id", "data_source_id": self.board_id}
        card_id = str(self.network.person("POST", "pages", {"parent": parent, "properties": properties})["id"])
        self.asked[card_id].append(self.schedule.now)
        self.programs[card_id] = program
        self.schedule.note("person", f"adds {card_id}: {program}")
        return card_id

    def live(self, actions: int) -> None:
        for number in range(actions):
            self.schedule.pause(self.schedule.random.uniform(3, 60), "person")
            card_id = self.schedule.random.choice(sorted(self.asked))
            what = self.schedule.random.choice(("todo", "todo", "todo", "away", "edit", "add", "trash", "scribble"))
            if what == "add":
                self.add(f"late {number}", self.schedule.random.randint(1, 3))
            else:
                self.act(card_id, what)

    def act(self, card_id: str, what: str) -> None:
        card = self.look(card_id)
        if what != "trash" and card["in_trash"]:
            what = "trash"
        if what == "todo":
            if card["status"] == "Todo" or self._in_doubt(card_id):
                return
            self.write(card_id, what, {"Status": {"select": {"name": "Todo"}}})
            self.asked[card_id].append(self.schedule.now)
        elif what == "away":
            place = self.schedule.random.choice(OTHER_PLACES)
            self.write(card_id, f"to {place}", {"Status": {"select": {"name": place}}})
        elif what == "edit":
            self.write(card_id, what, {"Name": {"title": [{"text": {"content": f"edited at {self.schedule.now}"}}]}})
            self.asked[card_id].append(self.schedule.now)
        elif what == "scribble":
            self.write(card_id, what, {"ClaimedBy": {"rich_text": [{"text": {"content": "Ann"}}]}})
        elif what == "trash":
            self.touched[card_id].append((self.schedule.now, what))
            self.schedule.note("person", f"{card_id}: {'restore' if card['in_trash'] else 'trash'}")
            self.network.person("PATCH", f"pages/{card_id}", {"in_trash": not card["in_trash"]})
            self.asked[card_id].append(self.schedule.now)

    def _in_doubt(self, card_id: str) -> bool:
        """A naive effect may have happened: they look there before they ask for it once more, as they were told to."""
        if "naive" not in self.programs[card_id]:
            return False
        return self.services.under_way + self.services.at_work > 0 or any(
            change.kind == "naive" and change.purpose.startswith(card_id) for change in self.services.changes
        )

    def write(self, card_id: str, what: str, properties: dict[str, Any]) -> None:
        self.touched[card_id].append((self.schedule.now, what))
        self.schedule.note("person", f"{card_id}: {what}")
        self.network.person("PATCH", f"pages/{card_id}", {"properties": properties})

    def look(self, card_id: str) -> dict[str, Any]:
        """Straight from the board's memory."""
        store = self.network.dispatcher.board.store
        card, board = store.get(card_id), store.get(self.board_id)
        assert card is not None
        assert board is not None
        shown: dict[str, Any] = {"in_trash": card.in_trash}
        for column_id, column in board.body["properties"].items():
            if column["name"] in SHOWN:
                shown[SHOWN[column["name"]]] = _plain(column, card.body["properties"].get(column_id))
        return shown


def _plain(column: dict[str, Any], value: Any) -> Any:
    if column["type"] == "select":
        return next((option["name"] for option in column["options"] if option["id"] == value), None)
    if column["type"] == "rich_text":
        return "".join(part["content"] for part in value or ()) or None
    return value

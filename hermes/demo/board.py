"""The demo's view of its board: puts the cards there and reads them back, over the same API as everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hermes.app import App
from hermes.demo.scenario import BOARD, CARDS, DemoCard


@dataclass(frozen=True, slots=True)
class SeenCard:
    """A card as the board shows it."""

    id: str
    title: str
    status: str
    priority: str
    retry_count: int
    last_error: str
    run_id: str
    claimed_by: str


class DemoBoard:
    def __init__(self, app: App) -> None:
        """The board is made when it is not there yet."""
        self._board = app.board(BOARD)

    def put(self, wanted: Iterable[DemoCard]) -> list[str]:
        """Add the cards that are missing, in order; returns their titles."""
        there = {card.title for card in self.cards()}
        missing = [card for card in wanted if card.title not in there]
        for card in missing:
            self._board.client.write("POST", "pages", self._page(card))
        return [card.title for card in missing]

    def cards(self) -> list[SeenCard]:
        """All of them, those of the scenario in its order."""
        answers = self._board.client.pages("POST", f"data_sources/{self._board.key}/query", {"page_size": 100})
        cards = [_seen(page) for answer in answers for page in answer["results"]]
        order = {card.title: number for number, card in enumerate(CARDS)}
        return sorted(cards, key=lambda card: order.get(card.title, len(order)))

    def text(self, card_id: str) -> str:
        """What stands in its page, as Markdown."""
        return self._board.read_body(card_id)

    def _page(self, card: DemoCard) -> dict[str, Any]:
        return {
            "parent": {"type": "data_source_id", "data_source_id": self._board.key},
            "properties": {
                "title": {"title": [{"text": {"content": card.title}}]},
                "Status": {"select": {"name": card.status}},
                "Priority": {"select": {"name": card.priority}},
                "Description": {"rich_text": [{"text": {"content": card.shows}}]},
            },
        }


def _seen(page: dict[str, Any]) -> SeenCard:
    values = page["properties"]

    def text(name: str) -> str:
        entry = values[name]
        return "".join(segment["plain_text"] for segment in entry[entry["type"]])

    def option(name: str) -> str:
        chosen = values[name]["select"]
        return chosen["name"] if chosen else ""

    return SeenCard(
        id=page["id"],
        title=text("Name"),
        status=option("Status"),
        priority=option("Priority"),
        retry_count=values["RetryCount"]["number"] or 0,
        last_error=text("LastError"),
        run_id=text("RunId"),
        claimed_by=text("ClaimedBy"),
    )

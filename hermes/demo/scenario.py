"""What stands on the demo's board at the beginning, and what must stand there at the end."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.demo.service import CLOSED_CUSTOMER, LOST_ANSWER, OVERLOADED

BOARD = "team"
"""As named in the demo's hermes.yaml."""
LONG_TEXT = 30_000
"""Characters that the report has at least."""


@dataclass(frozen=True, slots=True)
class DemoCard:
    title: str
    status: str
    priority: str
    shows: str
    """For people: why this card is here."""
    ends: str | None = None
    """The status it must reach; None for a card that nobody may touch."""
    effects: tuple[str, ...] = ()
    """Subjects at the office, each of which must take effect exactly once."""
    error: str = ""
    """What LastError must hold at the end."""
    retried: bool = False
    """It must have gone back to Todo at least once."""
    long: bool = False
    """Its page must hold the whole long text."""


CARDS = (
    DemoCard("Invoice 1001 for customer 17", "Todo", "Medium", "a plain card", "Complete", ("Invoice 1001",)),
    DemoCard(
        f"{OVERLOADED} for customer 23",
        "Todo",
        "Urgent",
        "the office is overloaded at first: retried, then done",
        "Complete",
        (OVERLOADED,),
        retried=True,
    ),
    DemoCard(
        f"Invoice 1003 for customer {CLOSED_CUSTOMER}",
        "Todo",
        "High",
        "the office refuses: Failed, and LastError says why",
        "Failed",
        error=f"customer {CLOSED_CUSTOMER} has closed their account",
    ),
    DemoCard("Invoice 1004 for customer 17", "Todo", "High", "a plain card", "Complete", ("Invoice 1004",)),
    DemoCard(
        f"{LOST_ANSWER} for customer 42",
        "Todo",
        "High",
        "the office does it and its answer is lost: asked again with the same key, done once",
        "Complete",
        (LOST_ANSWER,),
    ),
    DemoCard("Invoice 1006 for customer 99", "Todo", "Medium", "a plain card", "Complete", ("Invoice 1006",)),
    DemoCard(
        "Report on the third quarter",
        "Todo",
        "High",
        "a result of 30,000 characters, whole in the page",
        "Complete",
        ("Report on the third quarter",),
        long=True,
    ),
    DemoCard(
        "Reminder: the contract ends soon",
        "Todo",
        "Urgent",
        "sleeps five seconds between two letters, holding nothing",
        "Complete",
        ("Reminder: the contract ends soon", "Reminder: the contract ends soon, again"),
    ),
    DemoCard("Report on the stationery", "Todo", "Low", "no poll wants low priority: it stays in Todo"),
    DemoCard("Invoice 0999 for customer 17", "Complete", "High", "was done before Hermes came"),
    DemoCard("Invoice 0998 for customer 42", "Cancelled", "High", "a status that Hermes was not told about"),
    DemoCard("Report on the office party", "InProgress", "High", "a person works on this one"),
)
EXPECTED = {card.title: card for card in CARDS}

"""Who we are on a board: one installation is all processes on one database; a boot id is one process incarnation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    installation: str
    boot_id: str

    @property
    def claimed_by(self) -> str:
        """What stands in a card's ClaimedBy column."""
        return f"hermes/{self.installation}:{self.boot_id}"


def names_installation(claimed_by: str | None) -> bool:
    """Whether a ClaimedBy value has the form that installations write. Anything else is the word of a person."""
    name = (claimed_by or "").strip()
    return name.startswith("hermes/") and ":" in name


def installation_of(claimed_by: str | None) -> str | None:
    """The installation named in a ClaimedBy value; the whole value for names that are not ours to parse; None if empty.

    A foreign system's free text is still somebody: it never reads as unclaimed."""
    if claimed_by is None or not claimed_by.strip():
        return None
    name = claimed_by.strip()
    if names_installation(name):
        return name.removeprefix("hermes/").rsplit(":", 1)[0]
    return name

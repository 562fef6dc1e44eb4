"""SQLModel tables, one file a subject. Importing this package registers all of them."""

from store.tables import claims, installation, limits, polls, runs

__all__ = ["claims", "installation", "limits", "polls", "runs"]

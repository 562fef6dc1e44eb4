"""SQLModel tables, one file a subject. Importing this package registers all of them."""

from sqlmodel import SQLModel

# Names for what the tables leave nameless: a migration can only change what has one. Before the tables are made.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

from store.tables import api_keys, claims, events, installation, limits, polls, runs  # noqa: E402

__all__ = ["api_keys", "claims", "events", "installation", "limits", "polls", "runs"]

"""What authentication and the command line need from the store of API keys.

Every method is part of the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hermes.model.api_key import ApiKey, NewApiKey


class ApiKeys(Protocol):
    def add(self, new: NewApiKey) -> ApiKey | None:
        """None when the name is taken."""
        ...

    def by_prefix(self, prefix: str) -> tuple[ApiKey, str] | None:
        """The key and its hash, which goes no further than a comparison; revoked ones too."""
        ...

    def all(self) -> Sequence[ApiKey]:
        """Oldest first."""
        ...

    def revoke(self, name: str) -> ApiKey | None:
        """The key, which nobody may use any more; again changes nothing. None when there is none of that name."""
        ...

    def note_use(self, key_id: int) -> None:
        """At most once a minute it is written."""
        ...

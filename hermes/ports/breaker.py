"""What has been learnt about the endpoints of a credential, shared by everybody who uses it."""

from __future__ import annotations

from typing import Protocol


class Breaker(Protocol):
    def admit(self, endpoint: str) -> None:
        """Raises a `SourceError` where the call is not to be sent: `Fatal` for an endpoint that was said not to be
        there, `Retryable` with `retry_after` for one that failed again and again."""
        ...

    def answered(self, endpoint: str) -> None: ...

    def failed(self, endpoint: str, error: Exception, *, permanent: bool) -> None: ...

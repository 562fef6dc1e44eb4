"""What may stand under `connections:` for a board that this machine serves itself (`type: local`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_PORT = 8450


class LocalBoardConnection(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["local"] = "local"
    port: Annotated[int, Field(ge=1, le=65535)] = DEFAULT_PORT
    """Served on the loopback address only; `hermes-poll up` serves it, or `hermes-poll board serve`."""
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Total time of one call."""
    times: dict[Literal["guard", "settle", "wait_out", "hint_age"], float] = Field(default_factory=dict)
    """Seconds: parameters of hermes/claim/PROTOCOL.md. The defaults suit a board on this machine."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

"""What may stand under `connections:` (type notion) and `boards:` in hermes.yaml. The loader hands over the dicts."""

from __future__ import annotations

import hashlib
import ipaddress
from datetime import timedelta
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from hermes.model.card import NOTION_TIMES, CardStatus, ProtocolTimes

NOTION_URL = "https://api.notion.com"
NEWEST_VERSION = "2026-03-11"
OLDEST_VERSION = "2025-09-03"
"""Before it a database had no data sources, and their routes answer 400."""

LOCAL_TIMES = ProtocolTimes(
    guard=timedelta(seconds=1),
    settle=timedelta(seconds=1.5),
    wait_out=timedelta(seconds=3),
    hint_age=timedelta(seconds=1),
)
"""For a board on this machine: nothing lies between us and it that could hold a request back for long."""

LOCAL_TOKEN = "local-board"  # noqa: S105 - a board on this machine takes any


def _no_comma(name: str) -> str:
    if "," in name:
        raise ValueError("the name of an option cannot hold a comma")
    return name


Name = Annotated[str, Field(min_length=1, max_length=100)]
OptionName = Annotated[Name, AfterValidator(_no_comma)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TimesOverrides(_Section):
    """Seconds; what is left out keeps the default of the kind of board."""

    guard: float | None = Field(default=None, gt=0)
    settle: float | None = Field(default=None, gt=0)
    wait_out: float | None = Field(default=None, gt=0)
    hint_age: float | None = Field(default=None, gt=0)


class NotionConnection(_Section):
    type: Literal["notion"] = "notion"
    token: SecretStr = SecretStr("")
    """Needed for Notion itself; a board on this machine takes any."""
    base_url: str | None = None
    version: str = Field(default=NEWEST_VERSION, pattern=r"^\d{4}-\d{2}-\d{2}$")
    timeout_seconds: float = Field(default=30.0, gt=0, le=300)
    """Total time of one call, from the name lookup to the last byte of the answer."""
    calls_per_minute: int | None = Field(default=None, ge=6)
    """Budget shared by all processes. Left out: 180 for Notion, none for a board on this machine."""
    times: TimesOverrides = TimesOverrides()

    @field_validator("token")
    @classmethod
    def _token_fits_a_header(cls, token: SecretStr) -> SecretStr:
        plain = token.get_secret_value().strip()
        # An HTTP library refusing the header would print it.
        if not all(33 <= ord(letter) <= 126 for letter in plain):
            raise ValueError("the token holds characters that no token has (a space, a line break, a quote mark?)")
        return SecretStr(plain)

    @field_validator("base_url")
    @classmethod
    def _base_url_is_safe(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must look like https://host or http://127.0.0.1:8700")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must be scheme, host and port only; the token has its own key")
        if parts.scheme == "http" and not is_loopback(url):
            raise ValueError("would send the token unencrypted: use https, or http to this machine only")
        return url.rstrip("/").removesuffix("/v1")

    @field_validator("version")
    @classmethod
    def _version_has_data_sources(cls, version: str) -> str:
        if version < OLDEST_VERSION:
            raise ValueError(f"must be {OLDEST_VERSION} or newer ({NEWEST_VERSION} is the tested one)")
        return version

    @model_validator(mode="after")
    def _token_is_there(self) -> Self:
        if not self.token.get_secret_value() and not self.local:
            raise ValueError(
                "token: is needed; make one at notion.so/profile/integrations and give it as ${NOTION_TOKEN}"
            )
        times = self.protocol_times
        if times.settle <= times.guard:
            raise ValueError("times: settle must be longer than guard")
        return self

    @property
    def bearer(self) -> str:
        return self.token.get_secret_value() or LOCAL_TOKEN

    @property
    def url(self) -> str:
        return self.base_url or NOTION_URL

    @property
    def local(self) -> bool:
        return is_loopback(self.url)

    @property
    def budget(self) -> int | None:
        """Calls a minute, or None for no pacing."""
        return self.calls_per_minute or (None if self.local else 180)

    @property
    def credential_key(self) -> str:
        """Names the credential in the limiter's row without telling it."""
        secret = f"{self.url}\x00{self.bearer}"
        return hashlib.sha256(secret.encode()).hexdigest()[:32]

    @property
    def protocol_times(self) -> ProtocolTimes:
        default = LOCAL_TIMES if self.local else NOTION_TIMES
        given = self.times

        def seconds(value: float | None, otherwise: timedelta) -> timedelta:
            return otherwise if value is None else timedelta(seconds=value)

        return ProtocolTimes(
            guard=seconds(given.guard, default.guard),
            settle=seconds(given.settle, default.settle),
            wait_out=seconds(given.wait_out, default.wait_out),
            hint_age=seconds(given.hint_age, default.hint_age),
        )


class StatusNames(_Section):
    """The option of the status column that stands for each role, as it is called on the board."""

    todo: OptionName = "Todo"
    in_progress: OptionName = "InProgress"
    complete: OptionName = "Complete"
    failed: OptionName = "Failed"
    attention: OptionName | None = None
    """Where there is none, what needs attention is shown as failed."""

    @model_validator(mode="after")
    def _all_different(self) -> Self:
        seen: dict[str, str] = {}
        for role, name in self.by_role().items():
            other = seen.setdefault(name.strip().casefold(), role)
            if other != role:
                raise ValueError(f"statuses: {other} and {role} are the same option {name!r}")
        return self

    def by_role(self) -> dict[CardStatus, str]:
        roles = (CardStatus.todo, CardStatus.in_progress, CardStatus.complete, CardStatus.failed, CardStatus.attention)
        return {role: name for role in roles if (name := getattr(self, role)) is not None}


class ColumnNames(_Section):
    """What each column is called on the board. The title column is found by its type."""

    status: Name = "Status"
    priority: Name | None = "Priority"
    """`null` for a board without priorities."""
    claimed_by: Name = "ClaimedBy"
    run_id: Name = "RunId"
    claimed_at: Name = "ClaimedAt"
    claim_expires_at: Name = "ClaimExpiresAt"
    completed_at: Name = "CompletedAt"
    retry_count: Name = "RetryCount"
    last_error: Name = "LastError"
    description: Name | None = "Description"
    """Used where it exists."""


class BoardSettings(_Section):
    connection: Name
    board: str = Field(min_length=1)
    """Database URL, database id, data-source id, or the page around an inline database."""
    mode: Literal["exclusive", "shared"] = "exclusive"
    statuses: StatusNames = StatusNames()
    columns: ColumnNames = ColumnNames()
    priority_order: list[OptionName] | Literal["ascending", "descending"] | None = None
    """Option names, first is most urgent; or the direction of a number column. Left out: the options' order on the
    board, and for numbers the lowest first."""


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

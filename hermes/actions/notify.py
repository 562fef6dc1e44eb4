"""The `notify` action: tell each channel once. Every target is an effect of its own, so that one that fails is tried
again without telling the others twice."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from hermes.config import Configuration, PollConfig
from hermes.config.section import Id, Section, Text
from hermes.durable import CommandFailed, command, function
from hermes.effects import Effect, dedupe_key, perform
from hermes.errors import Retryable, UnknownOutcome
from hermes.model.claim import CardInput
from hermes.model.json import JSON

PLACEHOLDER = re.compile(r"\{record\.([A-Za-z_]\w*)\}")
FIELDS = ("id", "url", "title", "description", "body", "priority", "generation")


class NotifyAction(Section):
    type: Literal["notify"]
    channels: Annotated[tuple[Id, ...], Field(min_length=1)]
    """Names under `channels:` in hermes.yaml."""
    title: Text = "{record.title}"
    """`{record.<field>}` stands for a field of the card; nothing else is evaluated."""
    body: Text = "{record.description}\n{record.url}"

    @field_validator("channels", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


def problem(action: NotifyAction, configuration: Configuration) -> tuple[str, str] | None:
    for channel in action.channels:
        if channel not in configuration.channels:
            known = ", ".join(sorted(configuration.channels)) or "none"
            return "channels", f"no channel is named {channel!r} in hermes.yaml (there are: {known})"
    for key, template in (("title", action.title), ("body", action.body)):
        for name in PLACEHOLDER.findall(template):
            if name not in FIELDS:
                return key, f"a card has no field {name!r} (allowed: {', '.join(FIELDS)})"
    return None


@dataclass(frozen=True, slots=True)
class Notify:
    user: str
    poll: str
    condition_version: str
    channels: tuple[str, ...]
    title: str
    body: str
    name: str = "notify"
    function: str = "hermes.actions.notify.notify_card"

    @classmethod
    def of(cls, action: NotifyAction, poll: PollConfig) -> Notify:
        return cls(poll.owner, poll.id, poll.condition_version, action.channels, action.title, action.body)

    def args(self, card: CardInput) -> dict[str, JSON]:
        keys = {
            channel: dedupe_key(
                user=self.user,
                poll=self.poll,
                object_id=card.id,
                cause=f"generation:{card.generation}",
                action=self.name,
                place="1",
                target=channel,
                condition_version=self.condition_version,
            )
            for channel in self.channels
        }
        return {"title": filled(self.title, card), "body": filled(self.body, card), "channels": dict(keys)}


def filled(template: str, card: CardInput) -> str:
    """The card's text is data: what looks like a placeholder inside it stays as it is."""
    fields = asdict(card)
    return PLACEHOLDER.sub(lambda match: str(fields.get(match.group(1)) or ""), template)


_channels: dict[str, str] = {}


def connect(channels: Mapping[str, str]) -> None:
    """Called by the composition root: Apprise URLs by name. They are never part of a run's record."""
    _channels.clear()
    _channels.update(channels)


@function(name="hermes.actions.notify.notify_card")
async def notify_card(title: str, body: str, channels: dict[str, str]) -> str:
    """`channels`: dedupe key by channel name. Every channel is tried before a failure of one is raised."""
    failed: list[str] = []
    for channel, key in channels.items():
        try:
            await perform(Effect.of(tell, key, channel, title, body))
        except CommandFailed as error:
            failed.append(f"{channel}: {error}")
    if failed:
        raise RuntimeError("not everyone was told: " + "; ".join(failed))
    return f"Told {', '.join(channels)}."


@command(name="hermes.actions.notify.tell", effect="naive", retries=3, timeout=timedelta(seconds=60))
def tell(channel: str, title: str, body: str) -> None:
    """One notification to one channel. No service Apprise speaks to takes an idempotency key: what may have been sent
    is left to a person."""
    import apprise  # two hundred plugins: only where something is sent

    url = _channels.get(channel)
    if url is None:
        raise Retryable(f"no channel is named {channel!r} in hermes.yaml")
    sender = apprise.Apprise()
    if not sender.add(url):
        raise Retryable(f"the URL of the channel {channel!r} is none that Apprise understands")
    with _Said() as said:
        delivered = sender.notify(title=title, body=body)
    if delivered:
        return
    if said.refused:
        raise Retryable(f"the channel {channel!r} refused it ({said.refused})")
    raise UnknownOutcome(f"the channel {channel!r} did not answer: it may have been told")


class _Said(logging.Handler):
    """Apprise answers False for a refusal and for a lost connection alike; only its log tells them apart."""

    refused: str | None = None

    def __enter__(self) -> _Said:
        self._logger = logging.getLogger("apprise")
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"error=(\d{3})", record.getMessage())
        if found:
            self.refused = f"HTTP {found.group(1)}"

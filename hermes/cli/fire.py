"""`fire`: an event, put into the database from here. What the API does for programs, for a person at this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.cli.context import looking_app
from hermes.cli.exits import Code, CommandError
from hermes.cli.payload import json_given, text_of

if TYPE_CHECKING:
    from hermes.firing import Delivery
    from hermes.model.json import JSON


def fire(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the event, exactly as it is waited for.")],
    instance_id: Annotated[str, typer.Argument(metavar="INSTANCE", help="What it is about, exactly so too.")],
    json_payload: Annotated[
        str | None, typer.Option("--json-payload", metavar="JSON", help="What it carries; left out, nothing.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="In place of that: a file of JSON, or - for stdin.")
    ] = None,
    event_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The same one again is the same event.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="Keep it so long when nobody waits: 90s, 12h, 30d.")
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace")] = "default",
    json: Annotated[bool, typer.Option("--json", help="As one JSON document.")] = False,
) -> None:
    """Fire an event: the oldest run that waits for it takes it, or it is kept for the first that will."""
    from hermes.cli.output import tell
    from hermes.durable.registry import load_functions
    from hermes.firing import NotAnEvent, fire
    from hermes.validated import NotFitting

    payload = _payload(json_payload, file)
    keep = None if ttl is None else _time(ttl)
    with looking_app(ctx) as hermes:
        load_functions(hermes.configuration.functions, hermes.configuration.folder)  # where events are declared
        try:
            went = fire(
                hermes,
                name,
                instance_id,
                payload,
                namespace=namespace,
                event_id=event_id,
                ttl=keep,
                fired_by="cli",
            )
        except (NotAnEvent, NotFitting) as error:
            raise CommandError(f"{error}", Code.usage) from None
    tell(json, _said(went), **_told(went))


def _payload(text: str | None, file: str | None) -> tuple[JSON] | None:
    if text is not None and file is not None:
        raise typer.BadParameter("say --json-payload or --file, not both")
    if file is not None:
        return (json_given(file, text_of(file)),)
    return None if text is None else (json_given("--json-payload", text),)


def _time(text: str) -> Any:
    from hermes.config.duration import parse_duration

    try:
        return parse_duration(text)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"--ttl: {error}") from None


def _said(went: Delivery) -> str:
    from hermes.cli.output import instant

    again = " already, when it came first" if went.duplicate else ""
    if went.run is not None:
        return f"Event {went.event_id} was delivered{again}: run {went.run.id} ({went.run.key or 'removed since'})."
    return f"Event {went.event_id} is kept{again} until {instant(went.kept_until)}: nobody waits for it yet."


def _told(went: Delivery) -> dict[str, Any]:
    told: dict[str, Any] = {"event": went.event_id, "status": "kept" if went.run is None else "delivered"}
    if went.run is not None:
        told["run"] = went.run
    else:
        told["kept_until"] = went.kept_until
    return {**told, "duplicate": went.duplicate}

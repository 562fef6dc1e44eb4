"""`events`: what was fired and where it went, and who waits for what."""

from __future__ import annotations

from typing import Annotated

import typer

from hermes.cli.context import looking_app

app = typer.Typer(no_args_is_help=True, help="List events that were fired, and the waits that are open.")

Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
OfName = Annotated[str | None, typer.Option("--name", help="Only of this event.")]
OfInstance = Annotated[str | None, typer.Option("--instance", metavar="ID", help="Only of this instance.")]
OfNamespace = Annotated[str | None, typer.Option("--namespace", help="Only of this namespace.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=10_000)]


@app.command("list")
def list_events(
    ctx: typer.Context,
    kept: Annotated[bool, typer.Option("--kept", help="Only those that nobody has taken.")] = False,
    name: OfName = None,
    instance: OfInstance = None,
    namespace: OfNamespace = None,
    limit: Most = 50,
    json: Json = False,
) -> None:
    """Newest first, and where each went."""
    from hermes.cli.output import as_json, cut, near, print_json, say, table

    with looking_app(ctx) as hermes, hermes.store.read() as unit:
        found = unit.events.find(
            namespace=namespace, name=name, instance_id=instance, kept=True if kept else None, limit=limit
        )
        now = unit.now
        if json:
            print_json({"events": [hermes.redactor.value(as_json(event)) for event in found]})
            return
    if not found:
        say("No events that fit.")
        return
    rows = [
        (
            event.id,
            cut(event.name, 40),
            cut(event.instance_id, 40),
            event.namespace,
            near(event.fired_at, now),
            cut(event.fired_by, 40),
            f"run {event.run_id}" if event.run_id else _kept(event.expires_at <= now, near(event.expires_at, now)),
        )
        for event in found
    ]
    table(("EVENT", "NAME", "INSTANCE", "NAMESPACE", "FIRED", "BY", "WENT TO"), rows)


def _kept(over: bool, until: str) -> str:
    return "nobody: its time is over" if over else f"kept, ends {until}"


@app.command("waits")
def list_waits(
    ctx: typer.Context,
    name: OfName = None,
    instance: OfInstance = None,
    namespace: OfNamespace = None,
    limit: Most = 50,
    json: Json = False,
) -> None:
    """Runs that wait for an event now; who has waited longest is served first."""
    from hermes.cli.output import as_json, cut, near, print_json, say, table

    with looking_app(ctx) as hermes, hermes.store.read() as unit:
        found = unit.events.waits(namespace=namespace, name=name, instance_id=instance, limit=limit)
        now = unit.now
    if json:
        print_json({"waits": [{**as_json(wait), "forever": wait.until is None} for wait in found]})
    elif not found:
        say("No run waits for an event that fits.")
    else:
        rows = [
            (
                cut(wait.name, 40),
                cut(wait.instance_id, 40),
                wait.namespace,
                near(wait.since, now),
                near(wait.until, now) or "for ever",
                wait.run_id,
                cut(wait.run_key, 60),
            )
            for wait in found
        ]
        columns = ("NAME", "INSTANCE", "NAMESPACE", "SINCE", "UNTIL", "RUN", "KEY")
        table(columns, rows, styles={"for ever": "yellow"})

"""`board faults`: make a local board as difficult as Notion can be, and see what its calls met."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermes.cli.context import settings
from hermes.cli.exits import Code, CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable

app = typer.Typer(no_args_is_help=True, help="Faults of a local board: what its calls meet, and have met.")

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="Of the running local board; left out, the one of hermes.yaml."),
]
BUDGETS = ("bot_budget", "workspace_budget")
Json = Annotated[bool, typer.Option("--json", help="As one JSON document.")]


@app.command("list")
def list_faults(
    ctx: typer.Context,
    names: Annotated[
        bool, typer.Option("--names", help="Every fault there is, in place of those switched on.")
    ] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """What is switched on: the plan of standing faults, and one-shots that wait for their call."""
    from hermes.cli.output import print_json, say, table

    board = _board(ctx, url)
    if names:
        found = _ask(board, "GET", "faults/names")
        if json:
            print_json(found)
            return
        table(
            ("NAME", "CALLS", "DEFAULT", "DOES"),
            [(n["name"], n["calls"], n["default"], n["does"]) for n in found["names"]],
        )
        return
    _show(_ask(board, "GET", "faults"), json)
    if not json:
        say("`--names` lists every fault there is; docs/faults.md explains them.")


@app.command("set")
def set_faults(
    ctx: typer.Context,
    wanted: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME[=VALUE][@RATE%]...",
            help="`conflict`: the next call it fits meets it. `conflict=5%`: one in twenty does, until cleared. "
            "`rate_limited=460`, `rate_limited=460@3%`: with a value.",
        ),
    ],
    seed: Annotated[int | None, typer.Option("--seed", help="Of the rates; the same seed draws the same.")] = None,
    times: Annotated[int, typer.Option("--times", help="How many calls meet a one-shot; -1: until cleared.")] = 1,
    skip: Annotated[int, typer.Option("--skip", min=0, help="How many calls it lets pass first.")] = 0,
    page: Annotated[str | None, typer.Option("--page", metavar="ID", help="Only calls that name this object.")] = None,
    route: Annotated[
        str | None, typer.Option("--route", help="Only calls of this route, as the ledger writes it.")
    ] = None,
    after: Annotated[bool, typer.Option("--after", help="A person's hand: after the call, not before.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Switch faults on. Rates are added to the plan that runs; a rate of 0% takes one out of it."""
    board = _board(ctx, url)
    now = _ask(board, "GET", "faults")
    plan = dict(now.get("plan", {}))
    shots: list[dict[str, Any]] = []
    for text in wanted:
        name, value, rate = _read(text)
        if rate is None:
            shot = {"name": name, "value": value, "times": times, "skip": skip, "page_id": page, "route": route}
            shots.append(
                {key: given for key, given in shot.items() if given is not None} | ({"when": "after"} if after else {})
            )
        elif rate == 0:
            plan.pop(name, None)
        elif name in BUDGETS:
            raise typer.BadParameter(f"{name} is a number of calls a minute and has no rate")
        else:
            plan[name] = rate if value is None else {"rate": rate, "value": value}
    for budget in [shot for shot in shots if shot["name"] in BUDGETS]:
        shots.remove(budget)
        value = str(budget.get("value", ""))
        if not value.isdigit():
            raise typer.BadParameter(f"{budget['name']}=NUMBER: so many calls a minute")
        plan[budget["name"]] = int(value)
    if seed is not None:
        plan["seed"] = seed
    changes: list[dict[str, Any]] = [*shots]
    if plan != now.get("plan", {}):
        changes.append({"plan": plan})
    _show(_ask(board, "POST", "faults", changes), json)


@app.command("clear")
def clear_faults(ctx: typer.Context, url: Url = None, json: Json = False) -> None:
    """Switch everything off. Writes that are under way still land."""
    from hermes.cli.output import tell

    board = _board(ctx, url)
    _ask(board, "DELETE", "faults")
    tell(json, "No faults are switched on.", cleared=True, url=board)


@app.command("ledger")
def show_ledger(
    ctx: typer.Context,
    calls: Annotated[int, typer.Option("--calls", min=0, help="How many of the last calls are listed.")] = 20,
    page: Annotated[str | None, typer.Option("--page", metavar="ID", help="Only calls that name this object.")] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Count from zero afterwards.")] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """The calls the board was sent, which fault each met, and what became of its write."""
    from hermes.cli.output import print_json, say, table

    board = _board(ctx, url)
    found = _ask(board, "GET", "ledger")
    if reset:
        _ask(board, "DELETE", "ledger")
    rows = [call for call in found["calls"] if page is None or page.replace("-", "") in _bare(call["objects"])]
    rows = rows[-calls:] if calls else []
    if json:
        print_json({**found, "calls": rows})
        return
    say(f"{found['total']} calls, {found['early']} of them before a Retry-After was over")
    table(("ROUTE", "CALLS"), sorted(found["routes"].items()))
    if found["faults"]:
        table(("FAULT", "MET"), sorted(found["faults"].items()))
    table(
        ("CALL", "AT", "ROUTE", "STATUS", "FAULT", "WRITE", "LANDED", "OBJECTS"),
        [
            (
                call["number"],
                _time(call["at"]),
                call["route"],
                call["status"] or "cut",
                call["fault"],
                call["outcome"],
                _time(call["applied_at"]) if call["applied_at"] is not None else "",
                " ".join(call["objects"]),
            )
            for call in rows
        ],
    )


def read_faults(file: Path, seed: int | None) -> list[dict[str, Any]]:
    """The faults of a file for `board serve --faults`: `plan:` as docs/faults.md has it, and `faults:`, a list of
    one-shots. `seed` takes the place of the plan's."""
    from hermes.cli.output import safe

    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        content = YAML(typ="safe").load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise CommandError(f"{file}: {safe(error)}", Code.usage) from error
    if not isinstance(content, dict) or content.keys() - {"plan", "faults"}:
        raise CommandError(f"{file}: must hold `plan:` and `faults:` and nothing else", Code.usage)
    plan = content.get("plan")
    if seed is not None:
        plan = {**(plan or {}), "seed": seed}
    return [*content.get("faults", []), *([{"plan": plan}] if plan else [])]


def _read(text: str) -> tuple[str, str | None, float | None]:
    """Name, value, and rate from 0 to 1."""
    name, equals, rest = text.partition("=")
    value, at, percent = rest.rpartition("@") if rest.endswith("%") and "@" in rest else (rest, "", "")
    if not at and rest.endswith("%"):
        value, percent = "", rest
    if not name or (equals and not rest):
        raise typer.BadParameter(f"{text!r} is not NAME, NAME=VALUE, NAME=RATE% or NAME=VALUE@RATE%")
    if not percent:
        return name, value or None, None
    try:
        rate = float(percent.removesuffix("%")) / 100
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise typer.BadParameter(f"{text!r}: the rate {percent} is not between 0% and 100%")
    return name, value or None, rate


def _board(ctx: typer.Context, url: str | None) -> str:
    """Where the board is served."""
    if url is not None:
        return url.rstrip("/")
    from hermes.app import App

    hermes, _ = App.look(settings(ctx).config)
    try:
        known = {name: connection.url for name, connection in hermes.local_connections().items()}
    finally:
        hermes.close()
    if len(known) != 1:
        which = f"several ({', '.join(known)})" if known else "none"
        raise CommandError(f"Say --url: of connections of `type: local` the configuration has {which}.", Code.not_found)
    return next(iter(known.values()))


def _ask(board: str, method: str, path: str, body: Sequence[object] | None = None) -> Any:
    import json
    from urllib.error import HTTPError
    from urllib.request import ProxyHandler, Request, build_opener

    if not board.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{board!r} is no address like http://127.0.0.1:8450", param_hint="--url")
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{board}/_board/{path}", data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
            said = answer.read()
            return json.loads(said) if said else {}
    except HTTPError as error:
        raise CommandError(f"{board}: {_reason(error.read(), error.code)}", Code.failed) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise CommandError(
            f"No local board answers at {board} ({why}): `hermes-poll board serve` or `up` serves it.", Code.not_found
        ) from error


def _reason(said: bytes, status: int) -> str:
    import json

    try:
        return str(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        return f"answered {status}: is that a local board?"


def _show(found: dict[str, Any], json: bool) -> None:
    from hermes.cli.output import print_json, say, table

    if json:
        print_json(found)
        return
    plan, pending = found.get("plan"), found["pending"]
    if plan:
        rates = {name: entry for name, entry in plan.items() if name != "seed"}
        say(f"By rate, seed {plan['seed']}:")
        table(("FAULT", "RATE", "VALUE"), [_rate_row(name, entry) for name, entry in rates.items()])
    if pending:
        say("Once:")
        table(
            ("FAULT", "VALUE", "TIMES", "SKIP", "OBJECT", "ROUTE"),
            [(f["name"] or f["kind"], f["value"], f["times"], f["skip"], f["page_id"], f["route"]) for f in pending],
        )
    if found.get("landing"):
        say(f"{found['landing']} write(s) are under way and will land.")
    if not plan and not pending:
        say("No faults are switched on.")


def _rate_row(name: str, entry: Any) -> tuple[object, ...]:
    if isinstance(entry, dict):
        return name, f"{entry['rate']:.2%}", entry["value"]
    return (name, f"{entry:.2%}", "") if isinstance(entry, float) else (name, "", entry)


def _bare(ids: Iterable[str]) -> list[str]:
    return [one.replace("-", "") for one in ids]


def _time(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]

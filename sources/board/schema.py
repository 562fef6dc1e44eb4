"""The columns of a data source: how they arrive, how they are kept, how they are answered.

Kept by property id, so that a rename touches nothing else. Which values pages may hold in them is in properties.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sources.board.call import Call, Json
from sources.board.checks import COLORS, check_color, check_text
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.ids import decoded, encoded, new_id, new_property_id, read_id

PLAIN_TYPES = frozenset(
    (
        "title",
        "rich_text",
        "url",
        "email",
        "phone_number",
        "date",
        "checkbox",
        "people",
        "files",
        "place",
        "verification",
    )
) | {"created_time", "created_by", "last_edited_time", "last_edited_by", "button"}
OPTION_TYPES = frozenset(("select", "multi_select", "status"))
TYPES = PLAIN_TYPES | OPTION_TYPES | {"number", "formula", "relation", "rollup", "unique_id"}
_DEFAULT_STATUSES = (("Not started", "default"), ("In progress", "blue"), ("Done", "green"))
_GROUPS = (("To-do", "gray"), ("In progress", "blue"), ("Complete", "green"))
MAX_OPTIONS = 100
DESCRIPTION_UNITS = 280
EXPRESSION_UNITS = 20_000
NAME_UNITS = 100

Schema = dict[str, Json]


def find_property(schema: Mapping[str, Json], key: str) -> str | None:
    """The id of a property given by name, id, or URL-encoded id."""
    for property_id, kept in schema.items():
        if kept["name"] == key:
            return property_id
    if key in schema:
        return key
    plain = decoded(key)
    return plain if plain in schema else None


def title_only() -> Schema:
    return {"title": {"name": "Name", "type": "title"}}


def accept_schema(call: Call, value: Any, path: str) -> tuple[Schema, list[tuple[str, Json]]]:
    """The columns of a new data source, and the relations still to be mirrored in another one."""
    if not isinstance(value, dict):
        raise invalid_body(path, "an object", value)
    schema: Schema = {}
    mirrors: list[tuple[str, Json]] = []
    for name, config in value.items():
        property_id, kept = accept_property(call, name, config, f"{path}.{name}", schema)
        schema[property_id] = kept
        if kept["type"] == "relation" and kept.get("dual"):
            mirrors.append((property_id, _mirror_details(config)))
    titles = sum(1 for kept in schema.values() if kept["type"] == "title")
    if titles > 1:
        raise invalid("Multiple title properties were provided. Only one title property is allowed per data source.")
    if not titles:
        schema = (
            title_only() | schema if "Name" not in value else {"title": {"name": "Title", "type": "title"}} | schema
        )
    return schema, mirrors


def accept_property(call: Call, name: str, config: Any, path: str, schema: Schema) -> tuple[str, Json]:
    """One new column."""
    if not isinstance(config, dict):
        raise invalid_body(path, "an object", config)
    kind = _kind_of(config, None, path)
    kept: Json = {"name": _name(name, path), "type": kind}
    if config.get("description") is not None:
        kept["description"] = check_text(config["description"], f"{path}.description", DESCRIPTION_UNITS)
    details = config.get(kind)
    if not isinstance(details, dict):
        raise invalid_body(f"{path}.{kind}", "defined", UNDEFINED if details is None else details)
    kept |= _accept_details(call, kind, details, f"{path}.{kind}", schema)
    if kind == "title":
        return "title", kept
    property_id = new_property_id()
    while property_id in schema:
        property_id = new_property_id()
    return property_id, kept


def _name(value: Any, path: str) -> str:
    name = check_text(value, f"{path}.name", NAME_UNITS)
    if not name:
        raise invalid_body(f"{path}.name.length", "≥ `1`", 0)
    return name


def _kind_of(config: Json, before: str | None, path: str) -> str:
    """The type that `type` or a key of the configuration names."""
    kind = config.get("type") or next((key for key in config if key in TYPES), before)
    if not isinstance(kind, str) or kind not in TYPES:
        raise invalid_body(f"{path}.{kind if isinstance(kind, str) else 'type'}", "defined", UNDEFINED)
    return kind


def _accept_details(call: Call, kind: str, details: Json, path: str, schema: Schema) -> Json:
    if kind == "number":
        return {"format": check_text(details.get("format", "number"), f"{path}.format", NAME_UNITS)}
    if kind in ("select", "multi_select"):
        return {"options": accept_options(details.get("options", []), [], f"{path}.options")}
    if kind == "status":
        options = accept_options(
            details.get("options") or [{"name": name, "color": color} for name, color in _DEFAULT_STATUSES],
            [],
            f"{path}.options",
        )
        return {"options": options, "groups": _groups(options, custom=bool(details.get("options")))}
    if kind == "formula":
        return {"expression": check_text(details.get("expression", ""), f"{path}.expression", EXPRESSION_UNITS)}
    if kind == "unique_id":
        prefix = details.get("prefix")
        return {"prefix": None if prefix is None else check_text(prefix, f"{path}.prefix", NAME_UNITS)}
    if kind == "relation":
        return _accept_relation(call, details, path)
    if kind == "rollup":
        return _accept_rollup(call, details, path, schema)
    return {}


def accept_options(value: Any, existing: Sequence[Json], path: str) -> list[Json]:
    """The whole list of options as it shall be: those that are named stay, those left out are gone."""
    if not isinstance(value, list):
        raise invalid_body(path, "an array", value)
    if len(value) > MAX_OPTIONS:
        raise invalid_body(f"{path}.length", f"≤ `{MAX_OPTIONS}`", len(value))
    options: list[Json] = []
    for number, item in enumerate(value):
        where = f"{path}[{number}]"
        if not isinstance(item, dict) or not (item.get("name") or item.get("id")):
            raise invalid_body(f"{where}.name", "defined", UNDEFINED)
        known = next((o for o in existing if o["id"] == item.get("id") or o["name"] == item.get("name")), None)
        option = new_option(item.get("name") or "", [*existing, *options], where) if known is None else dict(known)
        color = item.get("color")
        if color is not None and known is None:
            option["color"] = check_color(color, f"{where}.color", COLORS)
        elif known is not None and color not in (None, known["color"]):
            raise invalid(f"Cannot update color of select with name: {known['name']}.")
        if item.get("description") is not None:
            option["description"] = check_text(item["description"], f"{where}.description", DESCRIPTION_UNITS)
        options.append(option)
    names = [option["name"].lower() for option in options]
    if len(set(names)) != len(names):
        raise invalid(f"{path} must have unique names, ignoring case.")
    return options


def new_option(name: Any, existing: Sequence[Json], path: str) -> Json:
    if "," in _name(name, path):
        raise invalid(f"Invalid select option, commas not allowed: {name}")
    return {"id": new_id(), "name": name, "color": COLORS[len(existing) % len(COLORS)], "description": None}


def _groups(options: Sequence[Json], *, custom: bool) -> list[Json]:
    """Options that a caller names all start in To-do; the three that come by default stand in one group each."""
    ids: list[list[str]] = [[] for _ in _GROUPS]
    for number, option in enumerate(options):
        ids[0 if custom else number].append(option["id"])
    named = zip(_GROUPS, ids, strict=True)
    return [{"id": new_id(), "name": name, "color": color, "option_ids": held} for (name, color), held in named]


def _accept_relation(call: Call, details: Json, path: str) -> Json:
    target = read_id(details.get("data_source_id"))
    if target is None and (call.legacy or "database_id" in details):
        database_id = read_id(details.get("database_id"))
        sources = call.store.children(database_id, "data_source") if database_id else []
        target = sources[0].id if sources else None
        if target is None:
            raise call.missing("database", str(details.get("database_id")))
    if target is None:
        raise invalid_body(f"{path}.data_source_id", "a valid uuid", details.get("data_source_id", UNDEFINED))
    call.find("data_source", target)
    return {"data_source_id": target, "dual": "dual_property" in details or details.get("type") == "dual_property"}


def _mirror_details(config: Json) -> Json:
    """What a request says about the other side of a two-way relation."""
    details = (config.get("relation") or {}).get("dual_property")
    return details if isinstance(details, dict) else {}


def _accept_rollup(call: Call, details: Json, path: str, schema: Schema) -> Json:
    relation = details.get("relation_property_id") or details.get("relation_property_name")
    target = details.get("rollup_property_id") or details.get("rollup_property_name")
    if not isinstance(relation, str) or not isinstance(target, str):
        raise invalid_body(f"{path}.relation_property_name", "defined", UNDEFINED)
    relation_id = find_property(schema, relation)
    if relation_id is None or schema[relation_id]["type"] != "relation":
        raise invalid(f"Could not find relation property with name or id: {relation}")
    source = call.find("data_source", schema[relation_id]["data_source_id"])
    target_id = find_property(source.body["properties"], target)
    if target_id is None:
        raise invalid(f"Could not find rollup property with name or id: {target}")
    function = check_text(details.get("function", "show_original"), f"{path}.function", NAME_UNITS)
    return {"relation": relation_id, "target": target_id, "function": function}


@dataclass(slots=True)
class SchemaChange:
    """What a PATCH of columns comes to."""

    schema: Schema
    mirrors: list[tuple[str, Json]] = field(default_factory=list)
    """Relations that need a mirror in the other data source, with what the request says about it."""
    gone: set[str] = field(default_factory=set)
    """Columns whose values are to be dropped."""
    unmirrored: list[tuple[str, str]] = field(default_factory=list)
    """Mirrors to be dropped: data source and property."""
    untied: list[tuple[str, str]] = field(default_factory=list)
    """Mirrors that go on as relations of their own."""


def update_schema(call: Call, schema: Schema, changes: Any, path: str) -> SchemaChange:
    """Null removes a column, a name renames it, another type replaces it."""
    if not isinstance(changes, dict):
        raise invalid_body(path, "an object", changes)
    result = SchemaChange(dict(schema))
    for key, change in changes.items():
        property_id = find_property(result.schema, key)
        if change is None:
            _remove(result, property_id, key)
        elif not isinstance(change, dict):
            raise invalid_body(f"{path}.{key}", "an object", change)
        else:
            _apply(call, result, property_id, key, change, f"{path}.{key}")
    return result


def _remove(result: SchemaChange, property_id: str | None, key: str) -> None:
    if property_id is None:
        raise invalid(f"Could not find property with name or id: {key}")
    before = result.schema.pop(property_id)
    if before["type"] == "title":
        raise invalid("Cannot delete title property.")
    result.gone.add(property_id)
    if before.get("synced"):
        result.unmirrored.append((before["data_source_id"], before["synced"]))


def _apply(call: Call, result: SchemaChange, property_id: str | None, key: str, change: Json, path: str) -> None:
    before: Json = {}
    if property_id is None:
        property_id, kept = accept_property(call, change.get("name") or key, change, path, result.schema)
    else:
        before = result.schema[property_id]
        kept = _changed(call, before, change, path, result.schema)
        if kept["type"] != before["type"]:
            if "title" in (before["type"], kept["type"]):
                raise invalid("Cannot change the type of the title property.")
            _remove(result, property_id, key)
            property_id = new_property_id()
        elif before.get("synced") and not kept.get("synced"):
            result.untied.append((before["data_source_id"], before["synced"]))
    if any(other["name"] == kept["name"] and i != property_id for i, other in result.schema.items()):
        raise invalid(f"Cannot have two properties with the name: {kept['name']}")
    result.schema[property_id] = kept
    if kept["type"] == "relation" and kept.get("dual") and not kept.get("synced"):
        result.mirrors.append((property_id, _mirror_details(change)))


def _changed(call: Call, before: Json, change: Json, path: str, schema: Schema) -> Json:
    kind = _kind_of(change, before["type"], path)
    name = _name(change.get("name") or before["name"], path)
    if kind != before["type"]:
        return accept_property(call, name, change, path, schema)[1]
    kept = {**before, "name": name}
    if "description" in change:
        text = change["description"]
        kept["description"] = None if text is None else check_text(text, f"{path}.description", DESCRIPTION_UNITS)
    details = change.get(kind)
    if not isinstance(details, dict) or not details:
        return kept
    if kind in OPTION_TYPES:
        if "options" in details:
            kept["options"] = accept_options(details["options"], before["options"], f"{path}.{kind}.options")
            if kind == "status":
                kept["groups"] = _regrouped(before["groups"], kept["options"])
        return kept
    if kind == "relation" and details.get("data_source_id", details.get("database_id")) is not None:
        fresh = _accept_details(call, kind, details, f"{path}.{kind}", schema)
        same = fresh["data_source_id"] == before["data_source_id"] and fresh["dual"] == before.get("dual", False)
        return kept if same else {key: value for key, value in kept.items() if key != "synced"} | fresh
    if kind in PLAIN_TYPES or kind == "relation":
        return kept
    return kept | _accept_details(call, kind, {**_details_of(before), **details}, f"{path}.{kind}", schema)


def _details_of(kept: Json) -> Json:
    if kept["type"] == "rollup":
        return {
            "relation_property_id": kept["relation"],
            "rollup_property_id": kept["target"],
            "function": kept["function"],
        }
    return {key: value for key, value in kept.items() if key not in ("name", "type", "description")}


def _regrouped(groups: Sequence[Json], options: Sequence[Json]) -> list[Json]:
    placed = {option_id for group in groups for option_id in group["option_ids"]}
    ids = [option["id"] for option in options]
    regrouped = [{**group, "option_ids": [i for i in group["option_ids"] if i in ids]} for group in groups]
    regrouped[0]["option_ids"].extend(i for i in ids if i not in placed)
    return regrouped


def default_status(kept: Json) -> Json | None:
    """The first option of the first group that has one: what an empty status shows."""
    options: dict[str, Json] = {option["id"]: option for option in kept["options"]}
    for group in kept["groups"]:
        for option_id in group["option_ids"]:
            return options[option_id]
    return next(iter(options.values()), None)


def render_schema(call: Call, schema: Mapping[str, Json]) -> Json:
    ordered = sorted(schema.items(), key=lambda item: (item[0] == "title", item[0]))
    return {kept["name"]: _render_property(call, schema, property_id) for property_id, kept in ordered}


def _render_property(call: Call, schema: Mapping[str, Json], property_id: str) -> Json:
    kept = schema[property_id]
    shown: Json = {
        "id": encoded(property_id),
        "name": kept["name"],
        "description": kept.get("description"),
        "type": kept["type"],
    }
    shown[kept["type"]] = _render_details(call, schema, kept)
    return shown


def _render_details(call: Call, schema: Mapping[str, Json], kept: Json) -> Json:
    kind = kept["type"]
    if kind == "number":
        return {"format": kept["format"]}
    if kind in ("select", "multi_select"):
        return {"options": kept["options"]}
    if kind == "status":
        return {"options": kept["options"], "groups": kept["groups"]}
    if kind == "formula":
        return {"expression": kept["expression"]}
    if kind == "unique_id":
        return {"prefix": kept["prefix"]}
    if kind == "relation":
        return _render_relation(call, kept)
    if kind == "rollup":
        return _render_rollup(call, schema, kept)
    return {}


def _render_relation(call: Call, kept: Json) -> Json:
    source = call.store.get(kept["data_source_id"])
    shown: Json = {"database_id": source.parent_id if source else None}
    if not call.legacy:
        shown["data_source_id"] = kept["data_source_id"]
    if kept.get("dual"):
        synced = kept.get("synced", "")
        mirror = source.body["properties"].get(synced, {}) if source else {}
        shown["type"] = "dual_property"
        shown["dual_property"] = {"synced_property_name": mirror.get("name", ""), "synced_property_id": encoded(synced)}
    else:
        shown["type"] = "single_property"
        shown["single_property"] = {}
    return shown


def _render_rollup(call: Call, schema: Mapping[str, Json], kept: Json) -> Json:
    relation = schema.get(kept["relation"], {})
    source = call.store.get(relation.get("data_source_id"))
    targets = source.body["properties"] if source else {}
    found = find_property(targets, kept["target"])
    return {
        "rollup_property_name": targets[found]["name"] if found else kept["target"],
        "relation_property_name": relation.get("name", ""),
        "rollup_property_id": found or kept["target"],
        "relation_property_id": kept["relation"],
        "function": kept["function"],
    }

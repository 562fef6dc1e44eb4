"""JSON Schemas of the two kinds of files, for editors. Made from the same models that read them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from hermes.config.configuration import Models
from hermes.config.duration import show_duration
from hermes.config.hermes_file import HermesFile
from hermes.config.poll_file import PollFile

FOLDER = "schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
"""pydantic leaves these names where a validator stands before the number."""
_ISO_DURATION = re.compile(r"P(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+S)?)?")
_OPEN_TEXT = ({"type": "string"}, {"type": "string", "format": "password", "writeOnly": True})


def schema_for_polls(models: Models) -> dict[str, Any]:
    schema, refs = _schema(
        PollFile,
        "One poll of Hermes: when it looks, at what, and what it does.",
        {"source": models.sources, "action": models.actions},
    )
    schema["properties"]["source"] = _one_of(refs["source"])
    schema["properties"]["action"] = _one_of(refs["action"])
    return cast(dict[str, Any], _with_references(schema))


def schema_for_hermes(models: Models) -> dict[str, Any]:
    sections = {"connections": models.connections, "boards": models.boards}
    schema, refs = _schema(HermesFile, "Settings of Hermes: the process, its connections and its boards.", sections)
    for section in sections:
        names = schema["properties"][section]["patternProperties"]
        schema["properties"][section]["patternProperties"] = {name: _one_of(refs[section]) for name in names}
        schema["properties"][section]["additionalProperties"] = False
    return cast(dict[str, Any], _with_references(schema))


def write_schemas(folder: Path, models: Models) -> list[Path]:
    """Writes `schema/poll.json` and `schema/hermes.json` below the configuration folder; returns what changed."""
    changed = []
    for name, schema in (("poll", schema_for_polls(models)), ("hermes", schema_for_hermes(models))):
        path = folder / FOLDER / f"{name}.json"
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def _schema(
    model: type[BaseModel], title: str, sections: Mapping[str, Mapping[str, type[BaseModel]]]
) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The model's schema with the definitions of all section models, and each section's choices."""
    wanted = [model, *(inner for choices in sections.values() for inner in choices.values())]
    found, definitions = models_json_schema([(inner, "validation") for inner in wanted])
    defs = definitions.get("$defs", {})
    refs = {
        name: [found[inner, "validation"] for _, inner in sorted(choices.items())] for name, choices in sections.items()
    }
    for name, choices in sections.items():
        for kind, inner in choices.items():
            # A section is told apart by its type, so an editor should ask for it even where the model has a default.
            entry = defs[found[inner, "validation"]["$ref"].rsplit("/", 1)[1]]
            if name != "boards" and "type" in entry.get("properties", {}):
                entry["properties"]["type"] = {"const": kind}
                entry["required"] = sorted({"type", *entry.get("required", [])})
    root = defs.pop(found[model, "validation"]["$ref"].rsplit("/", 1)[1])
    return {"$schema": DIALECT, **root, "description": title, "$defs": defs}, refs


def _one_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    unique = [choice for index, choice in enumerate(choices) if choice not in choices[:index]]
    return unique[0] if len(unique) == 1 else {"oneOf": unique}


def _with_references(node: Any) -> Any:
    """Everywhere a value may be `${NAME}` instead."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {
        _BOUNDS.get(key, key): inner if key in ("default", "examples", "enum") else _with_references(inner)
        for key, inner in node.items()
        if not (key == "title" and isinstance(inner, str))
    }
    if isinstance(node.get("default"), str) and _ISO_DURATION.fullmatch(node["default"]):
        node["default"] = show_duration(TypeAdapter(timedelta).validate_python(node["default"]))
    properties = node.get("properties")
    if isinstance(properties, dict):
        node["properties"] = {name: _or_reference(inner) for name, inner in properties.items()}
    return node


def _or_reference(schema: Any) -> Any:
    if not isinstance(schema, dict) or schema.get("type") not in ("integer", "number", "boolean", "string"):
        return schema
    around = {key: value for key, value in schema.items() if key in ("description", "default")}
    bare = {key: value for key, value in schema.items() if key not in around}
    if bare in _OPEN_TEXT:
        return schema
    return {**around, "anyOf": [bare, _REFERENCE]}

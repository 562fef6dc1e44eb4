"""Hashes that dedupe keys rest on, and the schemas editors use."""

from __future__ import annotations

import json

from hermes.config.schemas import schema_for_hermes, schema_for_polls, write_schemas
from hermes.config.versions import condition_version, definition_version

DEFINITION = {
    "poll": "tasks",
    "schedule": {"every": "10m"},
    "filter": "true",
    "action": {"type": "function", "function": "work"},
}


def test_the_condition_version_follows_filter_and_action_only():
    version = condition_version(DEFINITION)
    assert version == condition_version({**DEFINITION, "schedule": {"every": "1m"}, "priority": 1})
    assert version != condition_version({**DEFINITION, "filter": "false"})
    assert version != condition_version({**DEFINITION, "action": {"type": "function", "function": "other"}})
    assert version != condition_version({key: DEFINITION[key] for key in ("poll", "action")})
    assert version == "8d587a636d99ab32", "a changed hash makes every effect of every poll new: never by accident"


def test_the_definition_version_follows_everything_but_order():
    assert definition_version(DEFINITION) == definition_version(dict(reversed(DEFINITION.items())))
    assert definition_version(DEFINITION) != definition_version({**DEFINITION, "priority": 1})


def test_a_rotated_secret_makes_no_new_version(folder, poll_text):
    folder.poll(poll_text.replace("function: work", 'function: work, args: {to: "${WHO}"}'))
    folder.environ["WHO"] = "ada"
    before = folder.load().polls["tasks"]
    folder.environ["WHO"] = "bob"
    after = folder.load().polls["tasks"]
    assert before.action != after.action
    assert before.condition_version == after.condition_version
    assert after.definition["action"]["args"] == {"to": "${WHO}"}


def test_schemas_know_the_keys_the_choices_and_the_types_of_sections(folder):
    poll = schema_for_polls(folder.models)
    assert poll["additionalProperties"] is False
    assert {entry["$ref"] for entry in poll["properties"]["action"]["oneOf"]} == {
        "#/$defs/FunctionAction",
        "#/$defs/NotifyAction",
    }
    assert poll["$defs"]["FunctionAction"]["properties"]["type"] == {"const": "function"}
    assert poll["$defs"]["Misfire"]["properties"]["policy"]["anyOf"][0]["enum"] == ["once", "skip"]
    assert poll["$defs"]["Claim"]["properties"]["lease"]["default"] == "15m"
    assert "title" in poll["$defs"]["NotifyAction"]["properties"]
    assert poll["$defs"]["Claim"]["properties"]["max_attempts"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 100,
    }
    hermes = schema_for_hermes(folder.models)
    (connection,) = hermes["properties"]["connections"]["patternProperties"].values()
    assert connection == {"$ref": "#/$defs/TrackerConnection"}
    assert "token" in hermes["$defs"]["TrackerConnection"]["required"]


def test_every_reference_of_a_schema_leads_somewhere(folder):
    for schema in (schema_for_polls(folder.models), schema_for_hermes(folder.models)):
        text = json.dumps(schema)
        for part in text.split('"$ref": "#/$defs/')[1:]:
            assert part.split('"', 1)[0] in schema["$defs"]


def test_schemas_are_written_once(folder):
    assert len(write_schemas(folder.path, folder.models)) == 2
    assert write_schemas(folder.path, folder.models) == []
    assert folder.load().polls == {}, "the schema folder is not read as configuration"

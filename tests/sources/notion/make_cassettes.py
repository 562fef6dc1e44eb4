"""Makes the vcrpy cassettes of test_recordings.py from recorded Notion traffic.

    python tests/sources/notion/make_cassettes.py               cassettes from recordings/
    python tests/sources/notion/make_cassettes.py FOLDER        first takes recordings/ afresh from the whole collection

recordings/ holds the few interactions that the tests use; LICENSES.md there says whose they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
CASSETTES = HERE / "cassettes"
ULTIMATE = "ultimate-notion"
RAMNES = "ramnes-notion-sdk-py"

# Name of a cassette: which interactions of which recordings.
CHOSEN: dict[str, list[tuple[str, str, list[int]]]] = {
    "tasks": [(ULTIMATE, "test_query__test_query_new_task_db", [2, 7])],
    "tasks_with_status": [
        (ULTIMATE, "test_session__test_search_page", [1]),
        (ULTIMATE, "test_view__test_to_polars", [0]),
    ],
    "every_type": [(ULTIMATE, "obj_api__test_endpoints__test_retrieve_property", [1, 0])],
    "paging": [(ULTIMATE, "test_database__test_more_than_max_page_size_pages", [113, 114, 115])],
    "select_write": [(ULTIMATE, "test_page__test_option_page_props", [2, 6])],
    "database": [
        (ULTIMATE, "test_database__test_db_add_remove_data_source", [2]),
        (ULTIMATE, "test_cli__test_info_command_displays_system_and_notion_info", [0]),
    ],
    "two_data_sources": [(ULTIMATE, "test_database__test_db_add_remove_data_source", [4])],
    "comments": [(ULTIMATE, "test_comment__test_new_page_comment", [2, 3, 5])],
    "append": [(ULTIMATE, "test_blocks__test_insert_after_replace_block", [5, 6, 10])],
    "markdown": [(RAMNES, "test_pages_retrieve_markdown", [1])],
    "page_not_found": [(ULTIMATE, "test_session__test_get_page_by_id", [-1])],
    "bad_page_id": [(ULTIMATE, "test_cli__test_upload_invalid_page_uuid", [-1])],
    "bad_token": [(RAMNES, "test_api_response_error_additional_data", [0])],
    "bad_route": [(RAMNES, "test_api_response_error_request_id", [0])],
}
MOST_ROWS = 5
"""Of a page of results: enough for what it shows."""


def take(collection: Path) -> None:
    for name, parts in CHOSEN.items():
        rows = []
        for folder, recording, numbers in parts:
            interactions = json.loads((collection / folder / f"{recording}.json").read_text())
            rows.extend(_shortened(interactions[number]) for number in numbers)
        (RECORDINGS / f"{name}.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _shortened(interaction: dict[str, Any]) -> dict[str, Any]:
    answer = interaction["response"]
    if isinstance(answer, dict) and len(answer.get("results", [])) > MOST_ROWS:
        answer = {**answer, "results": answer["results"][:MOST_ROWS]}
    return {**interaction, "response": answer}


def cassette(name: str) -> str:
    interactions = json.loads((RECORDINGS / f"{name}.json").read_text())
    return str(yaml.safe_dump({"version": 1, "interactions": [_interaction(one) for one in interactions]}, width=120))


def _interaction(one: dict[str, Any]) -> dict[str, Any]:
    query = f"?{one['query']}" if one["query"] else ""
    return {
        "request": {
            "method": one["method"],
            "uri": f"https://api.notion.com{one['path']}{query}",
            "body": json.dumps(one["request"]) if one["request"] is not None else "",
            "headers": {"notion-version": [one["version"]]},
        },
        "response": {
            "status": {"code": one["status"], "message": ""},
            "headers": {"content-type": ["application/json; charset=utf-8"]},
            "body": {"string": json.dumps(one["response"], ensure_ascii=False)},
        },
    }


def main() -> None:
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]))
    CASSETTES.mkdir(exist_ok=True)
    for name in CHOSEN:
        (CASSETTES / f"{name}.yaml").write_text(cassette(name))


if __name__ == "__main__":
    main()

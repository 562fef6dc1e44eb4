"""What may stand in hermes.yaml for a Notion connection and a board."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from hermes.model.card import NOTION_TIMES
from sources.notion import BoardSettings, NotionConnection

TOKEN = "ntn_very_secret_token"


def connection(**given: Any) -> NotionConnection:
    return NotionConnection.model_validate({"type": "notion", **given})


def test_notion_itself_gets_notions_times_and_budget() -> None:
    notion = connection(token=TOKEN)
    assert (notion.url, notion.local, notion.budget) == ("https://api.notion.com", False, 180)
    assert notion.protocol_times == NOTION_TIMES
    assert notion.version == "2026-03-11"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8450", "http://localhost:8450/", "http://[::1]:8450/v1"])
def test_board_on_this_machine_gets_short_times_and_no_budget(url: str) -> None:
    local = connection(base_url=url)
    assert local.local
    assert local.budget is None
    assert local.protocol_times.wait_out == timedelta(seconds=3)
    assert not local.url.endswith(("/", "/v1"))


def test_times_can_be_overridden_one_by_one() -> None:
    times = connection(token=TOKEN, times={"settle": 20}).protocol_times
    assert (times.settle, times.guard) == (timedelta(seconds=20), NOTION_TIMES.guard)


def test_token_is_trimmed_and_never_shown() -> None:
    notion = connection(token=f" {TOKEN}\n")
    assert notion.bearer == TOKEN
    assert TOKEN not in f"{notion!r} {notion} {notion.model_dump()} {notion.credential_key}"


def test_credential_key_tells_tokens_and_servers_apart() -> None:
    keys = {
        connection(token=TOKEN).credential_key,
        connection(token=TOKEN + "2").credential_key,
        connection(token=TOKEN, base_url="https://notion.example").credential_key,
    }
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "token"),
        ({"token": ""}, "token"),
        ({"token": f"{TOKEN} x"}, "characters that no token has"),
        ({"token": f"{TOKEN}\nx"}, "characters that no token has"),
        ({"token": "ntn_geheim–"}, "characters that no token has"),
        ({"token": TOKEN, "base_url": "http://notion.example"}, "unencrypted"),
        ({"token": TOKEN, "base_url": "notion.example"}, "must look like"),
        ({"token": TOKEN, "base_url": f"https://u:{TOKEN}@notion.example"}, "scheme, host and port"),
        ({"token": TOKEN, "version": "2022-06-28"}, "2025-09-03 or newer"),
        ({"token": TOKEN, "version": "latest"}, "version"),
        ({"token": TOKEN, "times": {"settle": 5}}, "longer than guard"),
        ({"token": TOKEN, "timeout_seconds": 0}, "timeout_seconds"),
        ({"token": TOKEN, "tokn": "x"}, "tokn"),
    ],
)
def test_connection_that_cannot_work_is_refused_without_showing_the_token(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        connection(**given)
    assert says in str(raised.value)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "both"},
        {"statuses": {"done": "Done"}},
        {"statuses": {"todo": "Open", "complete": "open "}},
        {"columns": {"assignee": "Who"}},
        {"columns": {"status": None}},
        {"board": ""},
    ],
)
def test_board_settings_that_cannot_work_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        BoardSettings.model_validate({"connection": "notion", "board": "b", **given})

"""B1 to B8 of SCENARIOS.md at the adapter: what stands on boards, and what must not be sent to one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import ValidationError

from hermes.errors import Misconfigured
from hermes.model.card import CardStatus, CardValues
from sources.notion import BoardSettings
from sources.notion.text import units

NOW = datetime(2026, 1, 5, 9, 0, 40, tzinfo=UTC)
CLAIM = CardValues(
    status=CardStatus.in_progress,
    claimed_by="hermes/inst:boot",
    run_id="run-1",
    claimed_at=NOW,
    claim_expires_at=NOW + timedelta(minutes=15),
)
PORTUGUESE = {"todo": "A fazer", "in_progress": "Em andamento", "complete": "Concluído", "failed": "Falhou"}
FRAME = '  File "worker.py", line 10, in run\n    raise ValueError("não é possível")\n'
TRACEBACK = ("Traceback (most recent call last):\n" + FRAME * 500)[:13_647]


def failed_with(bench: Any, error: str) -> str:
    page = bench.add()
    bench.board.write(page, CLAIM)
    card = bench.board.write(page, CardValues(status=CardStatus.failed, last_error=error, completed_at=NOW))
    assert card.status is CardStatus.failed
    return str(card.last_error)


def test_B1_long_traceback_fits_the_column_and_stands_whole_in_the_page(bench: Any) -> None:
    shown = failed_with(bench, TRACEBACK)
    assert units(shown) <= 1900
    assert shown.startswith("Traceback")
    assert shown.endswith("(cut; the whole text is in the page)")
    page = bench.add()
    bench.board.write_result(page, "m", f"```\n{TRACEBACK}\n```", again=False)
    written = bench.board.read_body(page)
    assert all(line in written for line in TRACEBACK.splitlines())


@pytest.mark.parametrize(
    "error",
    [
        "x" * 1999 + "😀",
        "x" * 1899 + "😀",
        "😀" * 1000,
        "a\x00b",
        "half of an emoji \ud83d",
        "\udc00",
        "‮right to left‬",
        "",
        "   ",
        "\n" * 3000,
    ],
    ids=["1999 and emoji", "1899 and emoji", "emoji", "NUL", "half", "other half", "bidi", "empty", "blank", "lines"],
)
def test_B1_failed_write_never_fails(bench: Any, error: str) -> None:
    page = bench.add()
    card = bench.board.write(page, CardValues(status=CardStatus.failed, last_error=error))
    assert card.status is CardStatus.failed
    sent = bench.client.read("GET", f"pages/{page}")["properties"]["LastError"]["rich_text"]
    whole = "".join(segment["text"]["content"] for segment in sent)
    assert len(whole.encode("utf-16-le")) <= 2 * 1900
    assert all(segment["text"]["content"] for segment in sent)
    whole.encode()


@pytest.mark.parametrize("kind", ["select", "status"])
def test_B2_status_column_of_either_kind_with_options_in_portuguese(make_bench: Any, kind: str) -> None:
    names = [{"name": name} for name in ("Ideia", *PORTUGUESE.values())]
    bench = make_bench(columns={"Status": None, "Situação": {kind: {"options": names}}},
                       names={"status": "Situação"}, statuses=PORTUGUESE)  # fmt: skip
    bench.add("todo", Status=None, **{"Situação": {kind: {"name": "A fazer"}}})
    bench.add("idea", Status=None, **{"Situação": {kind: {"name": "Ideia"}}})
    [card] = bench.board.open_cards()
    assert (card.title, card.status, card.status_name) == ("todo", CardStatus.todo, "A fazer")
    assert bench.board.write(card.id, CLAIM).status_name == "Em andamento"
    assert bench.board.write(card.id, CardValues(status=CardStatus.complete)).status_name == "Concluído"


def test_B2_names_match_whatever_their_case_and_spaces(make_bench: Any) -> None:
    names = [{"name": name} for name in ("todo ", "INPROGRESS", "Complete", "failed")]
    bench = make_bench(columns={"Status": {"select": {"options": names}}, "RunId": None, "runid": {"rich_text": {}}})
    page = bench.add(Status={"select": {"name": "todo "}})
    assert bench.board.write(page, CLAIM).run_id == "run-1"


def test_B2_options_renamed_while_running(make_bench: Any) -> None:
    bench = make_bench()
    first, second = bench.add("first"), bench.add("second")
    bench.board.open_cards()
    rename_option(bench, "InProgress", "Doing")
    rename_option(bench, "Todo", "Next")
    card = bench.board.write(first, CLAIM)
    assert (card.status, card.status_name) == (CardStatus.in_progress, "Doing")
    card = bench.board.read(second)
    assert (card.status, card.status_name) == (CardStatus.todo, "Next")


def test_B3_empty_title_strange_title_column_and_nulls(make_bench: Any) -> None:
    bench = make_bench(columns={"Name": None, "Tarefa": {"title": {}}})
    bold = [
        {"text": {"content": "Send the "}},
        {"text": {"content": "second"}, "annotations": {"bold": True}},
        {"text": {"content": " invoice"}},
    ]
    status = {"select": {"name": "Todo"}}
    for title, priority in ((bold, None), ([], None), ([{"text": {"content": "low"}}], "Low")):
        bench.add(Name=None, Tarefa={"title": title}, Status=status, Priority={"select": priority and {"name": "Low"}})
    cards = bench.board.open_cards()
    assert sorted(card.title for card in cards) == ["", "Send the second invoice", "low"]
    assert cards[0].title == "low"
    blank = cards[-1]
    assert (blank.priority, blank.claimed_at, blank.completed_at, blank.retry_count) == (None, None, None, 0)


def test_B4_column_deleted_while_running(bench: Any) -> None:
    running, waiting = bench.add("running"), bench.add("waiting")
    bench.board.write(running, CLAIM)
    bench.alter(RunId=None)
    with pytest.raises(Misconfigured, match=r"The board lacks column 'RunId' \(text\)"):
        bench.board.open_cards()
    with pytest.raises(Misconfigured, match="'RunId'"):
        bench.board.write(waiting, CLAIM)
    done = CardValues(status=CardStatus.complete, completed_at=NOW, last_error=None)
    assert bench.board.write(running, done).status is CardStatus.complete


def test_B4_column_renamed_while_running(bench: Any) -> None:
    page = bench.add()
    bench.board.open_cards()
    bench.alter(RunId={"name": "Execution"})
    assert bench.board.write(page, CLAIM).run_id == "run-1"
    assert [card.run_id for card in bench.board.open_cards()] == ["run-1"]


@pytest.mark.parametrize(
    "settings", [{"statuses": {"todo": "Now, please"}}, {"priority_order": ["High, or so"]}], ids=["status", "priority"]
)
def test_B5_comma_in_the_name_of_an_option_is_refused_at_the_door(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="comma"):
        BoardSettings.model_validate({"connection": "n", "board": "b", **settings})


def test_B5_neither_colour_nor_empty_segment_is_sent(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    write = bench.board.client.write
    monkeypatch.setattr(bench.board.client, "write", lambda *a, **o: (sent.append(a[2]), write(*a, **o))[1])
    page = bench.add()
    bench.board.write(page, CLAIM)
    bench.board.write(page, CardValues(status=CardStatus.todo, claimed_by="", last_error=None))
    bench.board.write_result(page, "m", "# \n\n-  \n\n``` \n\n```\n\n> \n\ntext", again=False)
    bench.board.comment(page, "m", "", again=False)
    assert sent
    assert "color" not in repr(sent)
    assert "'content': ''" not in repr(sent)


def test_B6_column_of_an_unknown_type_is_ignored(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    page = bench.add("card")
    bench.board.open_cards()
    read = bench.board.client.read

    def with_novelties(method: str, path: str, **options: Any) -> Any:
        answer = read(method, path, **options)
        if path.startswith("pages/"):
            answer["properties"] |= {
                "Hologram": {"id": "h1", "type": "hologram", "hologram": {"depth": 3}},
                "Button": {"id": "b1", "type": "button", "button": {}},
                "Where": {"id": "w1", "type": "place", "place": None},
                "Check": {"id": "v1", "type": "verification", "verification": None},
                "Odd": {"id": "o1", "type": "unsupported"},
                "Broken": {"id": "x1", "type": "multi_select", "multi_select": None},
                "No type": {"id": "n1"},
            }
        return answer

    monkeypatch.setattr(bench.board.client, "read", with_novelties)
    card = bench.board.read(page)
    assert card.title == "card"
    assert not {"Hologram", "Button", "Where", "Check", "Odd", "Broken", "No type"} & set(card.properties)


def test_B7_instants_are_written_in_utc_and_compared_as_instants(bench: Any) -> None:
    sydney = timezone(timedelta(hours=11))
    page = bench.add()
    local = datetime(2026, 1, 5, 20, 0, 40, tzinfo=sydney)
    assert bench.board.write(page, CardValues(claimed_at=local)).claimed_at == datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    bench.edit(page, ClaimExpiresAt={"date": {"start": "2026-01-05T20:15:00+11:00"}})
    assert bench.board.read(page).claim_expires_at == datetime(2026, 1, 5, 9, 15, tzinfo=UTC)


@pytest.mark.parametrize(("second", "minute"), [(0, 0), (1, 1), (59, 1)])
def test_B7_an_expiry_is_rounded_up_and_other_times_down(bench: Any, second: int, minute: int) -> None:
    at = datetime(2026, 1, 5, 23, 59, second, tzinfo=UTC)
    card = bench.board.write(bench.add(), CardValues(claim_expires_at=at, claimed_at=at))
    assert card.claim_expires_at == datetime(2026, 1, 5, 23, 59, tzinfo=UTC) + timedelta(minutes=minute)
    assert card.claimed_at == datetime(2026, 1, 5, 23, 59, tzinfo=UTC)


def test_B8_filter_ignored_by_the_server_is_made_up_for(bench: Any) -> None:
    bench.add("open")
    for name in ("Complete", "Failed"):
        bench.add(name, Status={"select": {"name": name}})
    bench.fault(kind="query", ignore_filter=True, times=-1)
    assert [card.title for card in bench.board.open_cards()] == ["open"]


def rename_option(bench: Any, old: str, new: str) -> None:
    """As people do in the app; Notion's API has no way to."""
    store = bench.server.board.store
    source = store.get(bench.source)
    schema = {column: {**kept} for column, kept in source.body["properties"].items()}
    for kept in schema.values():
        if kept["name"] == "Status":
            kept["options"] = [
                {**option, "name": new if option["name"] == old else option["name"]} for option in kept["options"]
            ]
    with store.transaction():
        store.put(source.with_body(properties=schema))

"""Cards: values in columns, options, dates, limits, trash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from notion_client import APIResponseError, Client

from hermes.testing.clock import FakeClock
from sources.board import PERSON_ID, PERSON_TOKEN, ROOT_PAGE_ID, running

Json = dict[str, Any]


def text(words: str) -> list[Json]:
    return [{"text": {"content": words}}]


def refused(work: Callable[[], object]) -> APIResponseError:
    with pytest.raises(APIResponseError) as error:
        work()
    return error.value


def test_a_new_card_stands_in_the_first_status_and_has_every_column(tasks: Any) -> None:
    card = tasks.read(tasks.add("x"))
    values = {name: value[value["type"]] for name, value in card["properties"].items()}
    assert values["Status"]["name"] == "Todo"
    assert values["Priority"] is None
    assert values["Description"] == []
    assert values["ClaimExpiresAt"] is None
    assert values["RetryCount"] is None
    assert card["parent"] == {
        "type": "data_source_id",
        "data_source_id": tasks.source_id,
        "database_id": tasks.database_id,
    }


def test_an_unknown_select_option_is_made_and_a_known_one_found_ignoring_case(tasks: Any) -> None:
    page = tasks.add("x")
    tasks.patch(page, Priority={"select": {"name": "Urgent"}})
    tasks.patch(page, Priority={"select": {"name": "high"}})
    shown = tasks.client.data_sources.retrieve(tasks.source_id)["properties"]["Priority"]["select"]["options"]
    assert [option["name"] for option in shown] == ["High", "Low", "Urgent"]
    assert tasks.read(page)["properties"]["Priority"]["select"]["name"] == "High"


def test_a_comma_in_an_option_is_refused(tasks: Any) -> None:
    page = tasks.add("x")
    error = refused(lambda: tasks.patch(page, Priority={"select": {"name": "a,b"}}))
    assert (error.status, error.code) == (400, "validation_error")


def test_an_unknown_status_is_refused_in_notions_words_and_null_means_the_default(tasks: Any) -> None:
    page = tasks.add("x", Status={"status": {"name": "Complete"}})
    error = refused(lambda: tasks.patch(page, Status={"status": {"name": "Done"}}))
    assert (error.status, str(error)) == (400, 'Status option "Done" does not exist')
    assert tasks.read(page)["properties"]["Status"]["status"]["name"] == "Complete"
    assert tasks.patch(page, Status={"status": None})["properties"]["Status"]["status"]["name"] == "Todo"


def test_a_refused_write_changes_nothing_of_the_card(tasks: Any) -> None:
    page = tasks.add("x")
    refused(lambda: tasks.patch(page, RunId={"rich_text": text("r1")}, Status={"status": {"name": "Nope"}}))
    assert tasks.read(page)["properties"]["RunId"]["rich_text"] == []


def test_an_unknown_column_is_named(tasks: Any) -> None:
    page = tasks.add("x")
    assert str(refused(lambda: tasks.patch(page, Nope={"number": 1}))) == "Nope is not a property that exists."


def test_a_value_of_another_type_is_named(tasks: Any) -> None:
    page = tasks.add("x")
    assert str(refused(lambda: tasks.patch(page, Priority={"number": 1}))) == "Priority is expected to be select."


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ({"start": "2026-01-05"}, "2026-01-05"),
        ({"start": "2026-01-05T10:11:12.345Z"}, "2026-01-05T10:11:00.000+00:00"),
        ({"start": "2026-01-05T10:11:12+11:00"}, "2026-01-05T10:11:00.000+11:00"),
        ({"start": "2026-01-05T10:11:12"}, "2026-01-05T10:11:00.000+00:00"),
        ({"start": "2026-07-05T10:11:12", "time_zone": "Europe/Berlin"}, "2026-07-05T10:11:00.000+02:00"),
    ],
)
def test_dates_are_floored_to_the_minute_and_keep_their_offset(tasks: Any, sent: Json, answered: str) -> None:
    shown = tasks.patch(tasks.add("x"), ClaimExpiresAt={"date": sent})["properties"]["ClaimExpiresAt"]["date"]
    assert shown == {"start": answered, "end": None, "time_zone": None}


def test_a_date_that_is_none_is_refused(tasks: Any) -> None:
    page = tasks.add("x")
    for bad in ("soon", "2026-13-01", "2026-01-05T25:00:00Z"):
        assert refused(lambda bad=bad: tasks.patch(page, ClaimExpiresAt={"date": {"start": bad}})).status == 400


def test_property_ids_survive_renames_and_work_encoded_raw_and_by_name(tasks: Any) -> None:
    before = tasks.client.data_sources.retrieve(tasks.source_id)["properties"]
    encoded = before["RunId"]["id"]
    page = tasks.add("x")
    tasks.patch(page, **{encoded: {"rich_text": text("r1")}})
    tasks.client.data_sources.update(tasks.source_id, properties={"RunId": {"name": "Run"}, "Name": {"name": "Tarefa"}})
    shown = tasks.read(page)["properties"]
    assert shown["Run"]["id"] == encoded
    assert shown["Run"]["rich_text"][0]["plain_text"] == "r1"
    assert shown["Tarefa"]["id"] == "title"
    assert tasks.patch(page, title={"title": text("y")})["properties"]["Tarefa"]["title"][0]["plain_text"] == "y"
    assert [p["id"] for p in tasks.query({"property": encoded, "rich_text": {"equals": "r1"}})] == [page]


def test_removing_an_option_or_a_column_empties_the_cards(tasks: Any) -> None:
    page = tasks.add("x", Priority={"select": {"name": "High"}}, RunId={"rich_text": text("r")})
    tasks.client.data_sources.update(
        tasks.source_id, properties={"Priority": {"select": {"options": [{"name": "Low"}]}}, "RunId": None}
    )
    shown = tasks.read(page)["properties"]
    assert shown["Priority"]["select"] is None
    assert "RunId" not in shown
    tasks.client.data_sources.update(tasks.source_id, properties={"RunId": {"rich_text": {}}})
    assert tasks.read(page)["properties"]["RunId"]["rich_text"] == []


def test_text_is_measured_in_utf16_units(tasks: Any) -> None:
    page = tasks.add("x")
    tasks.patch(page, LastError={"rich_text": text("a" * 1998 + "😀")})
    error = refused(lambda: tasks.patch(page, LastError={"rich_text": text("a" * 1999 + "😀")}))
    assert str(error) == (
        "body failed validation: body.properties.LastError.rich_text[0].text.content.length should be ≤ `2000`, "
        "instead was `2001`."
    )


def test_segments_that_look_alike_are_joined_and_empty_ones_dropped(tasks: Any) -> None:
    long = text("a" * 2000) + text("") + text("b" * 2000) + [{"text": {"content": "c"}, "annotations": {"bold": True}}]
    shown = tasks.patch(tasks.add("x"), LastError={"rich_text": long})["properties"]["LastError"]["rich_text"]
    assert [(len(item["plain_text"]), item["annotations"]["bold"]) for item in shown] == [(4000, False), (1, True)]


def test_arrays_hold_a_hundred_elements(tasks: Any) -> None:
    error = refused(lambda: tasks.patch(tasks.add("x"), LastError={"rich_text": text("a") * 101}))
    assert "rich_text.length should be ≤ `100`, instead was `101`" in str(error)


def test_a_trashed_card_is_read_with_its_flag_and_refuses_writes(tasks: Any) -> None:
    page = tasks.add("x")
    tasks.client.pages.update(page, in_trash=True)
    assert tasks.read(page)["in_trash"] is True
    assert tasks.query() == []
    error = refused(lambda: tasks.patch(page, RetryCount={"number": 1}))
    assert (error.status, error.code) == (400, "validation_error")
    assert "archived ancestor" in str(error)
    for write in (
        lambda: tasks.client.blocks.children.append(page, children=[{"divider": {}}]),
        lambda: tasks.client.comments.create(parent={"page_id": page}, rich_text=text("x")),
        lambda: tasks.client.pages.create(parent={"page_id": page}, properties={"title": text("x")}),
    ):
        assert "archived" in str(refused(write))
    tasks.client.pages.update(page, in_trash=False)
    assert tasks.patch(page, RetryCount={"number": 1})["in_trash"] is False


def test_cards_of_a_trashed_database_refuse_writes(tasks: Any) -> None:
    page = tasks.add("x")
    tasks.client.databases.update(tasks.database_id, in_trash=True)
    assert "archived ancestor" in str(refused(lambda: tasks.patch(page, RetryCount={"number": 1})))


def test_archived_is_said_before_2026_03_11_and_refused_after_it(tasks: Any, connect: Callable[..., Client]) -> None:
    page = tasks.add("x")
    older = connect(version="2025-09-03")
    assert older.pages.retrieve(page)["archived"] is False
    assert "archived" not in tasks.read(page)
    assert older.pages.update(page, archived=True)["in_trash"] is True
    error = refused(lambda: tasks.client.request(f"pages/{page}", "PATCH", body={"archived": False}))
    assert str(error) == "body failed validation: body.archived should be not present, instead was `false`."


def test_who_edited_last_tells_installations_and_people_apart(tasks: Any, connect: Callable[..., Client]) -> None:
    page = tasks.add("x")
    other = connect(token="other-installation")
    first = tasks.read(page)["last_edited_by"]["id"]
    other.pages.update(page, properties={"RetryCount": {"number": 1}})
    assert tasks.read(page)["last_edited_by"]["id"] == other.users.me()["id"] != first
    assert tasks.read(page)["created_by"]["id"] == first


def test_the_wrong_kind_of_id_is_named(tasks: Any, client: Client) -> None:
    assert f"{tasks.database_id} is a database, not a page" in str(refused(lambda: tasks.read(tasks.database_id)))
    assert f"{ROOT_PAGE_ID} is a page, not a database" in str(refused(lambda: client.databases.retrieve(ROOT_PAGE_ID)))
    assert refused(lambda: client.data_sources.retrieve(tasks.database_id)).code == "object_not_found"
    assert refused(lambda: client.databases.retrieve(tasks.source_id)).code == "object_not_found"


def test_a_database_of_two_sources_wants_to_know_which(tasks: Any, connect: Callable[..., Client]) -> None:
    tasks.client.data_sources.create(
        parent={"type": "database_id", "database_id": tasks.database_id}, properties={"Name": {"title": {}}}
    )
    shown = tasks.client.databases.retrieve(tasks.database_id)["data_sources"]
    assert shown[0]["id"] == tasks.source_id
    assert len(shown) == 2
    legacy = connect(version="2022-06-28")
    error = refused(lambda: legacy.request(f"databases/{tasks.database_id}", "GET"))
    assert str(error) == "Databases with multiple data sources are not supported in this API version."


def test_the_legacy_version_has_schema_and_rows_in_the_database(connect: Callable[..., Client]) -> None:
    client = connect(version="2022-06-28")
    database = client.request(
        "databases",
        "POST",
        body={
            "parent": {"page_id": ROOT_PAGE_ID},
            "title": text("L"),
            "properties": {"N": {"number": {}}, "T": {"title": {}}},
        },
    )
    assert set(database["properties"]) == {"N", "T"}
    page = client.pages.create(parent={"database_id": database["id"]}, properties={"N": {"number": 3}})
    assert page["parent"] == {"type": "database_id", "database_id": database["id"]}
    asked = {"filter": {"property": "N", "number": {"equals": 3}}}
    answer = client.request(f"databases/{database['id']}/query", "POST", body=asked)
    assert [row["id"] for row in answer["results"]] == [page["id"]]
    assert answer["type"] == "page_or_database"
    changed = client.request(f"databases/{database['id']}", "PATCH", body={"properties": {"N": {"name": "M"}}})
    assert set(changed["properties"]) == {"M", "T"}


def test_comments_hang_on_the_card_and_do_not_touch_its_edit_time(tasks: Any, clock: FakeClock) -> None:
    page = tasks.add("x")
    clock.advance(timedelta(minutes=5))
    first = tasks.client.comments.create(parent={"page_id": page}, rich_text=text("one"))
    tasks.client.comments.create(discussion_id=first["discussion_id"], rich_text=text("two"))
    listed = tasks.client.comments.list(block_id=page)["results"]
    assert [c["rich_text"][0]["plain_text"] for c in listed] == ["one", "two"]
    assert tasks.read(page)["last_edited_time"] == "2026-01-05T09:00:00.000Z"


def test_the_body_is_read_and_written_as_markdown(tasks: Any, clock: FakeClock) -> None:
    page = tasks.add("x")
    clock.advance(timedelta(minutes=2))
    source = (
        "# Result\n- one\n\t- nested\n- [x] done\n1. first\n2. second\n> said\n**bold** and `code`\n"
        "```python\nx = 1\n\ny\n```\n---"
    )
    tasks.client.pages.update_markdown(page, type="insert_content", insert_content={"content": source})
    assert tasks.client.pages.retrieve_markdown(page)["markdown"] == source
    assert tasks.read(page)["last_edited_time"] == "2026-01-05T09:02:00.000Z"


def test_blocks_are_appended_in_place_and_limits_hold(tasks: Any) -> None:
    page = tasks.add("x")
    append = tasks.client.blocks.children.append
    block: Json = {"paragraph": {"rich_text": text("p")}}
    first = append(page, children=[block, block])["results"]
    append(page, children=[{"divider": {}}], position={"type": "after_block", "after_block": {"id": first[0]["id"]}})
    append(page, children=[{"heading_1": {"rich_text": text("top")}}], position={"type": "start"})
    kinds = [b["type"] for b in tasks.client.blocks.children.list(page)["results"]]
    assert kinds == ["heading_1", "paragraph", "divider", "paragraph"]
    assert "length should be ≤ `100`" in str(refused(lambda: append(page, children=[block] * 101)))
    nested = {"paragraph": {"rich_text": [], "children": [block] * 100}}
    assert "1000" in str(refused(lambda: append(page, children=[nested] * 11)))
    assert len(tasks.client.blocks.children.list(page)["results"]) == 4
    assert refused(lambda: append(page, children=[block], after=first[0]["id"])).code == "validation_error"


def test_positions_between_two_blocks_never_run_out(tasks: Any) -> None:
    page = tasks.add("x")
    first, _ = tasks.client.blocks.children.append(page, children=[{"divider": {}}, {"breadcrumb": {}}])["results"]
    for number in range(80):
        tasks.client.blocks.children.append(
            page,
            children=[{"paragraph": {"rich_text": text(str(number))}}],
            position={"type": "after_block", "after_block": {"id": first["id"]}},
        )
    listed = tasks.client.blocks.children.list(page, page_size=100)["results"]
    shown = [b["paragraph"]["rich_text"][0]["plain_text"] for b in listed if b["type"] == "paragraph"]
    assert shown == [str(number) for number in reversed(range(80))]


def test_filter_properties_leaves_columns_out(tasks: Any, http: httpx.Client) -> None:
    page = tasks.add("x")
    encoded = tasks.read(page)["properties"]["Status"]["id"]
    answer = http.get(f"/v1/pages/{page}", params={"filter_properties": encoded})
    assert set(answer.json()["properties"]) == {"Status"}


def test_long_relations_are_cut_in_the_page_and_whole_in_the_property(tasks: Any) -> None:
    tasks.client.data_sources.update(
        tasks.source_id,
        properties={"Needs": {"relation": {"data_source_id": tasks.source_id, "single_property": {}}}},
    )
    others = [tasks.add(str(n)) for n in range(30)]
    page = tasks.add("x", Needs={"relation": [{"id": i} for i in others]})
    shown = tasks.read(page)["properties"]["Needs"]
    assert (len(shown["relation"]), shown["has_more"]) == (25, True)
    listed = tasks.client.pages.properties.retrieve(page, shown["id"])
    assert [item["relation"]["id"] for item in listed["results"]] == others


def test_formulas_follow_their_columns(tasks: Any) -> None:
    formulas = {
        "Double": 'prop("RetryCount") * 2',
        "Mark": 'if(prop("Status") == "Failed", "✗ " + prop("Name"), "")',
        "Loop": 'prop("Loop") + prop("Loop")',
        "Odd": "nonsense(((",
    }
    tasks.client.data_sources.update(
        tasks.source_id, properties={name: {"formula": {"expression": e}} for name, e in formulas.items()}
    )
    page = tasks.add("x", RetryCount={"number": 2}, Status={"status": {"name": "Failed"}})
    shown = {name: tasks.read(page)["properties"][name]["formula"] for name in formulas}
    assert shown == {
        "Double": {"type": "number", "number": 4},
        "Mark": {"type": "string", "string": "✗ x"},
        "Loop": {"type": "string", "string": None},
        "Odd": {"type": "string", "string": None},
    }


def test_a_persons_token_makes_a_persons_edits_unless_tokens_are_configured(
    tasks: Any, connect: Callable[..., Client], tmp_path: Path
) -> None:
    page = tasks.add("x")
    connect(token=PERSON_TOKEN).pages.update(page, properties={"RetryCount": {"number": 1}})
    assert tasks.read(page)["last_edited_by"]["id"] == PERSON_ID
    with (
        running(tmp_path / "closed.db", tokens={"secret": "Bot"}) as server,
        Client(auth=PERSON_TOKEN, base_url=server.url, log_level=60) as client,
    ):
        assert refused(client.users.me).code == "unauthorized"


def test_what_stands_below_trash_says_so(tasks: Any) -> None:
    page = tasks.add("x")
    block = tasks.client.blocks.children.append(page, children=[{"divider": {}}])["results"][0]["id"]
    tasks.client.databases.update(tasks.database_id, in_trash=True)
    assert tasks.read(page)["in_trash"] is True
    assert tasks.client.blocks.retrieve(block)["in_trash"] is True
    tasks.client.databases.update(tasks.database_id, in_trash=False)
    assert tasks.read(page)["in_trash"] is False

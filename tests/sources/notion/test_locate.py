"""What people paste, and the one data source they mean."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.errors import Gone, Misconfigured
from sources.notion.locate import ids_in, locate

ID = "b81ac93e-6107-4c8d-b5b6-a53ba25ad477"
HEX = ID.replace("-", "")
VIEW = "0" * 31 + "1"


@pytest.mark.parametrize(
    "pasted",
    [
        ID,
        HEX,
        HEX.upper(),
        f"  {ID}\n",
        f"<{ID}>",
        "b81ac93e61074c8d-b5b6a53b-a25ad477",
        f"https://www.notion.so/{HEX}",
        f"https://www.notion.so/{HEX}?v={VIEW}&pvs=4",
        f"https://www.notion.so/team/{HEX}?v={VIEW}",
        f"https://www.notion.so/team/Our-tasks-{HEX}?v={VIEW}",
        f"https://www.notion.so/team/A-bad-face-{HEX}",
        f"https://www.notion.so/team/Aufgaben-f%C3%BCr-alle-{HEX}?p={VIEW}&pm=s",
        f"notion.so/{HEX}",
        f"https://team.notion.site/Our-tasks-{HEX}?v={VIEW}",
        f"https://app.notion.com/p/{HEX}",
        f"https://app.notion.com/p/team/Our-tasks-{HEX}?v={VIEW}",
        f"notion://www.notion.so/team/{HEX}?v={VIEW}",
        f"http://127.0.0.1:8450/{ID}",
        f"http://127.0.0.1:8450/boards/{ID}/",
        f"https://www.notion.so/some-page#{HEX}",
    ],
)
def test_id_is_found_in_whatever_is_pasted(pasted: str) -> None:
    assert ids_in(pasted)[0] == ID


@pytest.mark.parametrize(
    "pasted", ["", "tasks", "https://www.notion.so/", f"https://www.notion.so/?v={VIEW}", HEX[:31]]
)
def test_text_without_an_id_is_refused_with_what_to_paste(pasted: str) -> None:
    assert ids_in(pasted) == []
    with pytest.raises(Misconfigured, match="holds no id"):
        locate(None, pasted)  # type: ignore[arg-type]


def test_kind_of_what_was_pasted_is_said(bench: Any) -> None:
    client, database = bench.board.client, bench.database["id"]
    by_source = locate(client, bench.source)
    by_database = locate(client, database)
    by_url = locate(client, f"https://www.notion.so/x-{database.replace('-', '')}?v={VIEW}")
    assert [found.kind for found in (by_source, by_database, by_url)] == ["data source", "database", "database"]
    assert {found.data_source_id for found in (by_source, by_database, by_url)} == {bench.source}
    assert by_database.data_source_name == "Tasks"


def test_usual_pastes_cost_few_calls(bench: Any) -> None:
    client = bench.board.client
    locate(client, bench.source)
    assert sum(bench.calls().values()) == 1
    locate(client, f"https://www.notion.so/{bench.database['id']}")
    assert sum(bench.calls().values()) == 1
    locate(client, bench.database["id"])
    assert sum(bench.calls().values()) == 2


def page_with(bench: Any, *titles: str, inside: str | None = None) -> str:
    """A page with inline databases on it."""
    parent = {"type": "page_id", "page_id": bench.server.root_page_id}
    page = bench.client.write("POST", "pages", {"parent": parent, "properties": {"title": []}})["id"]
    holder: dict[str, Any] = {"type": "page_id", "page_id": page}
    if inside:
        block = {"type": inside, inside: {"rich_text": []}}
        [made] = bench.client.write("PATCH", f"blocks/{page}/children", {"children": [block]})["results"]
        holder = {"type": "block_id", "block_id": made["id"]}
    for title in titles:
        body = {
            "parent": holder,
            "title": [{"text": {"content": title}}],
            "is_inline": True,
            "initial_data_source": {"properties": {"Name": {"title": {}}}},
        }
        bench.client.write("POST", "databases", body)
    return str(page)


def test_page_around_an_inline_database(bench: Any) -> None:
    found = locate(bench.board.client, page_with(bench, "Inline"))
    assert (found.kind, found.data_source_name) == ("page around a database", "Inline")


def test_page_around_a_database_inside_a_toggle(bench: Any) -> None:
    assert locate(bench.board.client, page_with(bench, "Deep", inside="toggle")).data_source_name == "Deep"


def test_page_around_several_databases_is_refused_with_their_names_and_ids(bench: Any) -> None:
    with pytest.raises(Misconfigured) as raised:
        locate(bench.board.client, page_with(bench, "Ideas", "Bugs"))
    said = str(raised.value)
    assert "'Ideas' (" in said
    assert "'Bugs' (" in said


def test_page_without_a_database_says_so(bench: Any) -> None:
    with pytest.raises(Misconfigured, match="no database"):
        locate(bench.board.client, page_with(bench))


def test_database_with_several_data_sources_is_refused_with_their_names_and_ids(bench: Any) -> None:
    database = bench.database["id"]
    more = bench.client.write(
        "POST",
        "data_sources",
        {
            "parent": {"type": "database_id", "database_id": database},
            "title": [{"text": {"content": "Archive"}}],
            "properties": {"Name": {"title": {}}},
        },
    )
    with pytest.raises(Misconfigured) as raised:
        locate(bench.board.client, database)
    said = str(raised.value)
    assert f"'Tasks' ({bench.source})" in said
    assert f"'Archive' ({more['id']})" in said
    assert locate(bench.board.client, more["id"]).data_source_id == more["id"]


def test_card_is_not_a_board(bench: Any) -> None:
    with pytest.raises(Misconfigured, match=f"is a card.*{bench.source}"):
        locate(bench.board.client, bench.add())


def test_unknown_or_unshared_id_tells_the_cures(bench: Any) -> None:
    with pytest.raises(Gone) as raised:
        locate(bench.board.client, ID)
    said = str(raised.value)
    assert "Connections" in said
    assert "Integration" in said  # the connection's own name, as people see it in that menu


def test_trashed_database_says_so(bench: Any) -> None:
    bench.client.write("PATCH", f"databases/{bench.database['id']}", {"in_trash": True})
    with pytest.raises(Gone, match="in the trash"):
        locate(bench.board.client, f"https://www.notion.so/{bench.database['id']}")

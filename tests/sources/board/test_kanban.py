"""The pages for people, without a browser: what they show, what they change, whom they refuse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from sources.board import PERSON_ID, ROOT_PAGE_ID, BoardServer

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


@pytest.fixture
def browser(board: BoardServer) -> Any:
    with httpx.Client(base_url=board.url, headers={"Sec-Fetch-Site": "same-origin"}) as client:
        yield client


def text(words: str) -> list[dict[str, Any]]:
    return [{"text": {"content": words}}]


def option(tasks: Any, column: str, name: str) -> str:
    prop = tasks.client.data_sources.retrieve(tasks.source_id)["properties"][column]
    return str(next(o["id"] for o in prop[prop["type"]]["options"] if o["name"] == name))


def state(browser: httpx.Client, tasks: Any) -> dict[str, list[str]]:
    columns = browser.get(f"/boards/{tasks.database_id}/state").json()["columns"]
    return {column["name"]: [card["title"] for card in column["cards"]] for column in columns}


def test_every_board_is_listed(tasks: Any, browser: httpx.Client) -> None:
    page = browser.get("/").text
    assert f'href="/boards/{tasks.database_id}"' in page
    assert "Tasks" in page


def test_a_board_shows_its_columns_in_order_and_cards_as_they_will_be_taken(tasks: Any, browser: httpx.Client) -> None:
    for name, priority in (("low", "Low"), ("none", None), ("high", "High")):
        tasks.add(name, Priority={"select": priority and {"name": priority}})
    tasks.add("mine", Status={"status": {"name": "Failed"}}, LastError={"rich_text": text("it broke")})
    assert state(browser, tasks) == {
        "Todo": ["high", "low", "none"],
        "InProgress": [],
        "Complete": [],
        "Failed": ["mine"],
    }
    page = browser.get(f"/boards/{tasks.database_id}").text
    assert page.index("Todo") < page.index("InProgress") < page.index("Complete") < page.index("Failed")
    assert "it broke" in page


def test_a_person_adds_moves_edits_trashes_and_restores_a_card(tasks: Any, browser: httpx.Client) -> None:
    base = f"/boards/{tasks.database_id}/cards"
    asked = {"title": "By hand", "priority": option(tasks, "Priority", "Low"), "description": "words " * 500}
    made = browser.post(base, data=asked, headers={"Accept": "application/json"}).json()["id"]
    card = tasks.read(made)
    assert card["created_by"]["id"] == card["last_edited_by"]["id"] == PERSON_ID
    assert card["properties"]["Status"]["status"]["name"] == "Todo"
    assert len(card["properties"]["Description"]["rich_text"][0]["plain_text"]) == 3000
    moved = browser.post(f"{base}/{made}/move", data={"column": option(tasks, "Status", "Complete")})
    assert (moved.status_code, moved.headers["location"]) == (303, f"/boards/{tasks.database_id}")
    assert tasks.read(made)["properties"]["Status"]["status"]["name"] == "Complete"
    browser.post(f"{base}/{made}/edit", data={"title": "Changed", "priority": "", "description": "short", "stay": "1"})
    shown = tasks.read(made)["properties"]
    assert (shown["Name"]["title"][0]["plain_text"], shown["Priority"]["select"]) == ("Changed", None)
    browser.post(f"{base}/{made}/trash", data={})
    assert tasks.read(made)["in_trash"] is True
    assert "Put it back" in browser.get(f"{base}/{made}").text
    browser.post(f"{base}/{made}/restore", data={})
    assert tasks.read(made)["in_trash"] is False


def test_a_persons_comment_is_a_persons(tasks: Any, browser: httpx.Client) -> None:
    page = tasks.add("x")
    browser.post(f"/boards/{tasks.database_id}/cards/{page}/comments", data={"text": "please hurry"})
    comment = tasks.client.comments.list(block_id=page)["results"][0]
    assert (comment["created_by"]["id"], comment["rich_text"][0]["plain_text"]) == (PERSON_ID, "please hurry")
    assert "please hurry" in browser.get(f"/boards/{tasks.database_id}/cards/{page}").text


def test_a_card_page_shows_claim_error_body_and_comments(tasks: Any, browser: httpx.Client) -> None:
    page = tasks.add(
        "x",
        ClaimedBy={"rich_text": text("host:boot")},
        ClaimExpiresAt={"date": {"start": "2026-01-05T08:00:00Z"}},
        RunId={"rich_text": text("run-1")},
        RetryCount={"number": 2},
        LastError={"rich_text": text("broken")},
    )
    tasks.client.blocks.children.append(page, children=[{"heading_2": {"rich_text": text("Result")}}])
    shown = browser.get(f"/boards/{tasks.database_id}/cards/{page}").text
    for words in ("host:boot", "run-1", "broken", "Result", 'class="expired"', "<dd>2</dd>"):
        assert words in shown


def test_a_board_without_a_description_column_keeps_it_in_the_page(tasks: Any, browser: httpx.Client) -> None:
    tasks.client.data_sources.update(tasks.source_id, properties={"Description": None})
    base = f"/boards/{tasks.database_id}/cards"
    made = browser.post(
        base, data={"title": "x", "description": "# Do\n- this"}, headers={"Accept": "application/json"}
    )
    page = made.json()["id"]
    assert tasks.client.pages.retrieve_markdown(page)["markdown"] == "# Do\n- this"
    browser.post(f"{base}/{page}/edit", data={"title": "x", "description": "- that"})
    assert tasks.client.pages.retrieve_markdown(page)["markdown"] == "- that"


def test_a_board_along_a_select_can_be_moved_too(client: Any, browser: httpx.Client) -> None:
    made = client.databases.create(
        parent={"page_id": ROOT_PAGE_ID},
        initial_data_source={
            "properties": {"Name": {"title": {}}, "Status": {"select": {"options": [{"name": "A"}, {"name": "B"}]}}}
        },
    )
    source = made["data_sources"][0]["id"]
    page = client.pages.create(parent={"data_source_id": source}, properties={"Name": {"title": text("x")}})
    columns = browser.get(f"/boards/{made['id']}/state").json()["columns"]
    assert [(c["name"], c["total"]) for c in columns] == [("No status", 1), ("A", 0), ("B", 0)]
    browser.post(f"/boards/{made['id']}/cards/{page['id']}/move", data={"column": columns[2]["id"]})
    assert client.pages.retrieve(page["id"])["properties"]["Status"]["select"]["name"] == "B"
    browser.post(f"/boards/{made['id']}/cards/{page['id']}/move", data={"column": "none"})
    assert client.pages.retrieve(page["id"])["properties"]["Status"]["select"] is None


def test_the_state_is_short_when_nothing_changed(tasks: Any, browser: httpx.Client) -> None:
    address = f"/boards/{tasks.database_id}/state"
    seen = browser.get(address).json()["revision"]
    assert browser.get(address, params={"since": seen}).json() == {"revision": seen}
    tasks.add("x")
    assert browser.get(address, params={"since": seen}).json()["columns"]


@pytest.mark.parametrize("words", [HOSTILE, "{{ 7 * 7 }}", "\u202egnp.exe"])
def test_strangers_text_is_only_text(tasks: Any, browser: httpx.Client, words: str) -> None:
    page = tasks.add(words, RunId={"rich_text": text(words)}, LastError={"rich_text": text(words)})
    tasks.patch(page, Priority={"select": {"name": words.replace(",", "")}})
    tasks.client.comments.create(parent={"page_id": page}, rich_text=text(words))
    tasks.client.blocks.children.append(page, children=[{"paragraph": {"rich_text": text(words)}}])
    tasks.client.databases.update(tasks.database_id, title=text(words))
    for address in ("/", f"/boards/{tasks.database_id}", f"/boards/{tasks.database_id}/cards/{page}"):
        shown = browser.get(address).text
        assert "<script>alert" not in shown
        assert "<img" not in shown
        assert ">49<" not in shown


def test_every_page_carries_a_strict_policy(tasks: Any, browser: httpx.Client) -> None:
    page = tasks.add("x")
    for address in ("/", f"/boards/{tasks.database_id}", f"/boards/{tasks.database_id}/cards/{page}", "/nowhere"):
        answer = browser.get(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"\son\w+=|style=|<script>|javascript:|//cdn", answer.text)


def test_nothing_writes_html_from_script() -> None:
    import sources.board

    folder = Path(sources.board.__file__).parent
    script = (folder / "static" / "board.js").read_text()
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"):
        assert forbidden not in script
    for template in (folder / "templates").glob("*.html"):
        assert "|safe" not in template.read_text().replace(" ", "")


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_changes_from_another_site_are_refused(tasks: Any, board: BoardServer, headers: dict[str, str]) -> None:
    page = tasks.add("x")
    for address in (f"/boards/{tasks.database_id}/cards/{page}/trash", "/_board/faults", f"/v1/pages/{page}/move"):
        assert httpx.post(f"{board.url}{address}", headers=headers, data={"a": "b"}).status_code == 403
    assert httpx.delete(f"{board.url}/_board/ledger", headers=headers).status_code == 403
    assert tasks.read(page)["in_trash"] is False


def test_other_host_names_are_not_answered_for(tasks: Any, board: BoardServer) -> None:
    port = board.url.rsplit(":", 1)[1]
    for name, status in (("evil.example", 421), ("localhost", 200), ("[::1]", 200), ("127.0.0.1.evil.example", 421)):
        for address in ("/", "/_board/ledger"):
            answer = httpx.get(f"{board.url}{address}", headers={"Host": f"{name}:{port}"})
            assert answer.status_code == status, (name, address)
    rebound = {"Host": "evil.example", "Authorization": "Bearer x", "Notion-Version": "2026-03-11"}
    assert httpx.get(f"{board.url}/v1/users/me", headers=rebound).status_code == 421


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/boards/nonsense", 404),
        ("/boards/11111111-1111-4111-8111-111111111111", 404),
        (f"/boards/{ROOT_PAGE_ID}", 404),
    ],
)
def test_what_is_not_there_is_said_kindly(browser: httpx.Client, path: str, status: int) -> None:
    answer = browser.get(path)
    assert answer.status_code == status
    assert "There is no such board." in answer.text


def test_wrong_forms_are_refused_and_change_nothing(tasks: Any, browser: httpx.Client) -> None:
    page = tasks.add("x")
    base = f"/boards/{tasks.database_id}/cards"
    assert browser.post(base, data={"title": "  "}).status_code == 400
    assert browser.post(f"{base}/{page}/move", data={"column": "nowhere"}).status_code == 400
    assert browser.post(f"{base}/{ROOT_PAGE_ID}/trash", data={}).status_code == 404
    assert browser.post(base, json={"title": "x"}).status_code == 415
    assert state(browser, tasks)["Todo"] == ["x"]

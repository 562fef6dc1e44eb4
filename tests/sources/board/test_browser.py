"""The kanban page in a real Chromium: live moves, dragging, menu, keyboard, a strict policy that nothing breaks."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources.board import PERSON_ID, BoardServer

pytestmark = pytest.mark.browser
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def text(words: str) -> list[dict[str, Any]]:
    return [{"text": {"content": words}}]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("NO BROWSER: the kanban page was not tried; apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="NO PLAYWRIGHT: the kanban page was not tried")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with sync_api.sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            yield browser
            browser.close()


@pytest.fixture
def page(chromium: Any, board: BoardServer, tasks: Any) -> Iterator[Any]:
    """The board of `tasks`, open; the test fails for anything the console complains about."""
    opened = chromium.new_page(viewport={"width": 1200, "height": 800})
    complaints: list[str] = []
    opened.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}") or dialog.dismiss())
    opened.goto(f"{board.url}/boards/{tasks.database_id}")
    yield opened
    opened.close()
    assert complaints == []


def column(page: Any, name: str) -> Any:
    return page.locator(".column").filter(has=page.locator("h2 .pill", has_text=name))


def card(page: Any, title: str) -> Any:
    return page.locator(".card").filter(has=page.locator(".card-title", has_text=title))


def wait_in(page: Any, title: str, name: str) -> None:
    column(page, name).locator(".card-title", has_text=title).wait_for(timeout=5000)


def status(tasks: Any, page_id: str) -> str:
    return str(tasks.read(page_id)["properties"]["Status"]["status"]["name"])


def test_what_hermes_does_appears_without_a_reload(page: Any, tasks: Any) -> None:
    made = tasks.add("Live card")
    wait_in(page, "Live card", "Todo")
    page.evaluate("window.stillTheSamePage = true")
    tasks.patch(
        made,
        Status={"status": {"name": "InProgress"}},
        ClaimedBy={"rich_text": text("host:boot")},
        RunId={"rich_text": text("run-77")},
    )
    wait_in(page, "Live card", "InProgress")
    assert "run-77" in card(page, "Live card").inner_text()
    tasks.patch(made, Status={"status": {"name": "Failed"}}, LastError={"rich_text": text("it broke <b>badly</b>")})
    wait_in(page, "Live card", "Failed")
    assert "it broke <b>badly</b>" in card(page, "Live card").inner_text()
    tasks.client.pages.update(made, in_trash=True)
    card(page, "Live card").wait_for(state="detached", timeout=5000)
    assert page.evaluate("window.stillTheSamePage") is True


def test_a_card_is_dragged_to_another_column(page: Any, tasks: Any) -> None:
    made = tasks.add("Drag me")
    wait_in(page, "Drag me", "Todo")
    card(page, "Drag me").drag_to(column(page, "Complete"))
    wait_in(page, "Drag me", "Complete")
    page.get_by_text("Moved to Complete").wait_for()
    assert status(tasks, made) == "Complete"
    assert tasks.read(made)["last_edited_by"]["id"] == PERSON_ID


def test_a_card_is_moved_by_its_menu_with_the_keyboard_alone(page: Any, tasks: Any) -> None:
    made = tasks.add("Keys only")
    wait_in(page, "Keys only", "Todo")
    card(page, "Keys only").locator(".card-title").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    wait_in(page, "Keys only", "InProgress")
    page.get_by_text("Moved to InProgress").wait_for()
    assert status(tasks, made) == "InProgress"
    page.wait_for_function("document.activeElement.textContent === 'Keys only'")
    page.keyboard.press("Shift+ArrowRight")
    wait_in(page, "Keys only", "Complete")


def test_cards_are_added_trashed_and_brought_back(page: Any, tasks: Any) -> None:
    page.get_by_text("Add a card").click()
    page.get_by_label("Title").fill("From the form")
    page.get_by_label("Priority").select_option(label="High")
    page.get_by_label("Description").fill("what to do")
    page.get_by_role("button", name="Add", exact=True).click()
    wait_in(page, "From the form", "Todo")
    made = tasks.query({"property": "Name", "title": {"equals": "From the form"}})[0]
    assert made["created_by"]["id"] == PERSON_ID
    assert made["properties"]["Priority"]["select"]["name"] == "High"
    card(page, "From the form").locator("summary").click()
    card(page, "From the form").get_by_role("button", name="Move to trash").click()
    card(page, "From the form").wait_for(state="detached", timeout=5000)
    page.get_by_role("button", name="Undo").click()
    wait_in(page, "From the form", "Todo")


def test_a_card_is_read_edited_and_commented_on_its_page(page: Any, tasks: Any) -> None:
    made = tasks.add("Details")
    wait_in(page, "Details", "Todo")
    page.get_by_role("link", name="Details").click()
    page.get_by_role("heading", name="Details").wait_for()
    tasks.client.comments.create(parent={"page_id": made}, rich_text=text("Done by run 9"))
    page.get_by_text("Done by run 9").wait_for(timeout=5000)
    page.get_by_label("Title").fill("New title")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="New title").wait_for()
    page.get_by_label("Add a comment").fill("Thanks")
    page.get_by_role("button", name="Comment").click()
    page.locator(".comment", has_text="Thanks").wait_for()


def test_hostile_text_runs_nowhere(page: Any, tasks: Any, board: BoardServer) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    made = tasks.add(hostile, LastError={"rich_text": text(hostile)}, RunId={"rich_text": text("javascript:alert(3)")})
    tasks.client.comments.create(parent={"page_id": made}, rich_text=text(hostile))
    wait_in(page, "<img", "Todo")
    page.goto(f"{board.url}/boards/{tasks.database_id}/cards/{made}")
    page.get_by_role("heading", name=hostile).wait_for()
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone_and_both_schemes(
    chromium: Any, board: BoardServer, tasks: Any, scheme: str, tmp_path: Path
) -> None:
    made = tasks.add("A card with quite a long title that has to wrap", LastError={"rich_text": text("e" * 300)})
    narrow = chromium.new_page(viewport={"width": 375, "height": 720}, color_scheme=scheme)
    for address in ("/", f"/boards/{tasks.database_id}", f"/boards/{tasks.database_id}/cards/{made}"):
        narrow.goto(f"{board.url}{address}")
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 375
    dark = narrow.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(23, 24, 26)") is (scheme == "dark")
    narrow.screenshot(path=os.environ.get("BOARD_SCREENSHOT", str(tmp_path / "narrow.png")))
    narrow.close()

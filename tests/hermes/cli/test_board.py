from __future__ import annotations

import pytest

from hermes.model.card import CardStatus


@pytest.fixture
def lacking(place):
    """A board without RunId."""

    def drop(_app, board) -> None:
        board.client.write("PATCH", f"data_sources/{board.key}", {"properties": {"RunId": None}})

    place.on_board(drop)
    return place


def columns(place) -> set[str]:
    found: set[str] = place.on_board(lambda _app, board: {column.name for column in board.describe().columns})
    return found


def test_init_of_a_complete_board_adds_nothing(place) -> None:
    assert "has everything" in place.ok("board", "init").out


def test_init_shows_asks_and_adds(lacking) -> None:
    assert "RunId" in lacking.ok("board", "init", "--dry-run").out
    assert "RunId" not in columns(lacking)
    assert "RunId" in lacking.ok("board", "init", answer="n\n").out
    assert "RunId" not in columns(lacking)
    added = lacking.ok("board", "init", "team", answer="y\n")
    assert "Added." in added.out
    assert "RunId" in columns(lacking)


def test_init_by_a_program(lacking) -> None:
    assert lacking.call("board", "init", "--json").code == 2, "it would have to ask"
    found = lacking.ok("board", "init", "--json", "--yes").json
    assert (found["applied"], found["complete"]) == (True, True)
    assert found["additions"] == ["column 'RunId' (text)"]


def test_an_unknown_board_ends_with_3(place) -> None:
    outcome = place.call("board", "init", "taem")
    assert outcome.code == 3
    assert "Did you mean 'team'?" in outcome.err


def test_create_needs_a_parent(place) -> None:
    assert place.call("board", "init", "--create").code == 2


def test_create_makes_a_board_below_a_page_once(place) -> None:
    from sources.board.ids import ROOT_PAGE_ID

    made = place.ok("board", "init", "--create", "--parent", ROOT_PAGE_ID, "--title", "New", "--yes", "--json").json
    again = place.ok("board", "init", "--create", "--parent", ROOT_PAGE_ID, "--title", "New", "--yes", "--json").json
    assert (made["created"], again["created"]) == (True, False)
    assert made["data_source"] == again["data_source"]


def test_show_says_what_waits_and_what_is_claimed(place) -> None:
    assert "No cards yet" in place.ok("board", "show").out
    place.work("sleep well")
    shown = place.ok("board", "show").out
    assert "sleep well" in shown
    assert "claimed" in shown
    (card,) = place.ok("board", "show", "team", "--json").json["cards"]
    assert card["state"] == "claimed"
    assert card["board_expires_at"].endswith("Z")


def test_adopt_with_nothing_to_take_on(place) -> None:
    assert "nothing to take on" in place.ok("board", "adopt").out


def test_adopt_shows_asks_gives_back_and_resumes_the_polls(place) -> None:
    place.write_poll("tasks", stop={"max_consecutive_failures": 1})
    card_id = place.add("theirs")
    place.claim_as(card_id, "hermes/other:boot", "their-run")
    assert place.work().code == 1
    assert place.ok("polls", "list", "--json").json["polls"][0]["health"] == "disabled"

    refused = place.ok("board", "adopt", answer="n\n")
    assert "hermes/other:boot" in refused.out
    assert "their-run" in refused.out
    assert place.card(card_id).status is CardStatus.in_progress

    done = place.ok("board", "adopt", "--yes")
    assert "1 card(s) are free again" in done.out
    card = place.card(card_id)
    assert (card.status, card.claimed_by, card.run_id) == (CardStatus.todo, None, None)
    assert place.work().code == 0
    assert place.card(card_id).status is CardStatus.complete


def test_adopt_by_a_program(place) -> None:
    card_id = place.add("theirs")
    place.claim_as(card_id, "hermes/other:boot", "their-run")
    place.work()
    seen = place.ok("board", "adopt", "--json", "--dry-run").json
    assert seen["claims"][0]["claimed_by"] == "hermes/other:boot"
    assert (seen["applied"], seen["given_back"]) == (False, [])
    done = place.ok("board", "adopt", "--json", "--yes").json
    assert (done["applied"], done["given_back"]) == (True, [card_id])

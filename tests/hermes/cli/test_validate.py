from __future__ import annotations


def test_a_good_configuration(place) -> None:
    assert "Nothing is wrong: 1 poll" in place.ok("validate").out
    assert place.ok("validate", "--json").json == {"ok": True, "problems": [], "polls": ["tasks"], "boards": []}


def test_every_problem_with_its_place_and_exit_2(place) -> None:
    (place.config / "polls" / "one.yaml").write_text(
        "poll: one\nsource: {type: board, board: teem}\nschedule: {every: 5}\n"
    )
    (place.config / "polls" / "two.yaml").write_text("poll: two\nbudget_usd: 3\n")
    outcome = place.call("validate")
    assert outcome.code == 2
    assert "config/polls/one.yaml:2:30" in outcome.err
    assert "config/polls/two.yaml:2:1" in outcome.err
    found = place.call("validate", "--json")
    assert found.code == 2
    assert {problem["file"] for problem in found.json["problems"]} == {"config/polls/one.yaml", "config/polls/two.yaml"}
    assert found.json["polls"] == ["tasks"]


def test_up_refuses_with_the_same_lines(place) -> None:
    (place.config / "polls" / "two.yaml").write_text("poll: two\nbudget_usd: 3\n")
    outcome = place.call("up")
    assert outcome.code == 2
    assert "config/polls/two.yaml:2:1" in outcome.err


def test_no_folder(place) -> None:
    (place.config / "hermes.yaml").unlink()
    outcome = place.call("validate")
    assert outcome.code == 2
    assert "hermes.yaml" in outcome.err


def test_the_schemas(place) -> None:
    found = place.ok("validate", "--schema").json
    assert set(found) == {"hermes", "poll"}
    assert "schedule" in found["poll"]["properties"]


def test_online_asks_the_boards(place) -> None:
    def drop_the_run_id(_app, board) -> None:
        board.client.write("PATCH", f"data_sources/{board.key}", {"properties": {"RunId": None}})

    place.on_board(drop_the_run_id)
    outcome = place.call("validate", "--online", "--json")
    assert outcome.code == 2
    (board,) = outcome.json["boards"]
    assert "RunId" in board["what"]
    assert "board init" in board["cure"]

"""The built-in engine under the contract of all engines, on both databases.

What an ending means, row by row. The run's column is in `hermes.testing.engine_contract`, the card's in
tests/hermes/claim; the last test here sees that each of them is there.

raises, deliveries left, has two cards: an exclusive one and a shared one. LastError of what parks is that of any run
that needs attention, whatever it was that parked it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermes.testing.engine_contract
from hermes.testing.built_in import BuiltIn
from hermes.testing.clock import FakeClock
from hermes.testing.databases import Databases
from hermes.testing.engine import EngineHarness
from hermes.testing.engine_contract import Engine, EngineContract

CLAIM = Path(__file__).parents[1] / "claim"
ENDINGS = {
    "test_ending_returns_a_value": ["test_main_path::test_a_card_goes_from_todo_to_complete_in_three_calls"],
    "test_ending_returns_refused": ["test_real_worker::test_a_refusal_is_failed_at_once"],
    "test_ending_returns_snooze": ["test_main_path::test_a_snooze_is_told_in_a_comment_once_and_a_delay_is_not"],
    "test_ending_raises_with_deliveries_left": [
        "test_main_path::test_a_failed_delivery_shows_todo_and_is_claimed_again_when_due",
        "test_shared::test_a_failed_delivery_keeps_its_claim_where_another_installation_was_seen",
    ],
    "test_ending_raises_with_none_left": [
        "test_real_worker::test_W8_an_action_without_a_result_is_tried_again_then_fails_with_a_reason",
        "test_main_path::test_a_failed_run_resumed_by_hand_is_claimed_again_under_its_key",
    ],
    "test_ending_meets_an_unknown_naive_outcome": ["test_endings_on_cards::test_what_needs_a_person_asks_for_one"],
    "test_ending_meets_changed_code": ["test_endings_on_cards::test_what_needs_a_person_asks_for_one"],
    "test_ending_is_a_poison_crash": [
        "test_endings_on_cards::test_what_needs_a_person_asks_for_one",
        "test_people::test_a_parked_card_put_back_to_todo_goes_on_under_its_key",
    ],
    "test_ending_loses_its_worker": ["test_endings_on_cards::test_a_take_over_changes_nothing_on_the_card"],
    "test_ending_is_cancelled_by_a_person": ["test_people::test_W5_a_card_moved_during_its_run_stays_where_it_was_put"],
}


class TestBuiltInEngine(EngineContract):
    @pytest.fixture
    def engine(self, databases: Databases) -> Iterator[Engine]:
        clock = FakeClock()
        harness = EngineHarness(databases.open(clock), clock)
        yield BuiltIn(harness)
        harness.close()


SQLITE_IS_ENOUGH = (
    "test_2_a_command_is_retried_so_often_then_its_exception_is_at_the_await",
    "test_2_a_refusal_of_business_is_a_value_and_not_retried",
    "test_3_retries_multiply_with_deliveries_and_finished_commands_stay",
    "test_4_sleepers_hold_nothing",
    "test_6_parts_run_side_by_side_each_as_often_as_it_must",
    "test_6_the_earliest_wins_then_the_lowest_step",
    "test_6_when_all_waits_for_all_and_raises_the_failure_of_the_lowest",
    "test_7_a_read_is_simply_made_again",
    "test_7_naive_is_tried_again_where_surely_nothing_happened",
    "test_8_a_command_that_is_never_awaited_is_an_error",
    "test_8_awaiting_anything_else_is_a_clear_error",
    "test_8_steps_asked_for_while_a_function_unwinds_are_refused",
    "test_8_time_and_chance_are_recorded",
    "test_10_an_attempt_past_its_timeout_is_of_unknown_outcome",
    "test_ending_raises_with_none_left",
    "test_ending_returns_a_value",
)
"""They say nothing that another database could say otherwise."""
for name in SQLITE_IS_ENOUGH:
    pytest.mark.sqlite_is_enough(getattr(TestBuiltInEngine, name))


def test_every_ending_has_its_test_of_the_run_and_of_the_card() -> None:
    of_the_contract = _tests(Path(hermes.testing.engine_contract.__file__))
    assert {name for name in of_the_contract if name.startswith("test_ending_")} == set(ENDINGS)
    for node in (node for nodes in ENDINGS.values() for node in nodes):
        module, _, test = node.partition("::")
        assert test in _tests(CLAIM / f"{module}.py"), node


def _tests(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}

"""`board adopt`: what others left on the board is shown, and given back on a person's word only."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.claim.adopt import Adopted, adopt, foreign_claims
from hermes.model.card import CardStatus, CardValues
from hermes.model.claim import ClaimState, WriteKind

pytestmark = pytest.mark.sqlite_is_enough


def claimed_by(team, title: str, by: str, run_id: str = "their-run", minutes: int = 60) -> str:
    card_id = team.add(title)
    team.board.write(
        card_id,
        CardValues(
            status=CardStatus.in_progress,
            claimed_by=by,
            run_id=run_id,
            claim_expires_at=team.clock.now() + timedelta(minutes=minutes),
        ),
    )
    return card_id


def shown(hermes, *, shared: bool = False):
    return foreign_claims(hermes.store, hermes.board, hermes.identity, shared=shared)


def adopted(hermes, claims=None) -> Adopted:
    claims = shown(hermes) if claims is None else claims
    return adopt(hermes.store, hermes.board, hermes.identity, hermes.clock, hermes.policy.poll_id, claims)


def test_foreign_cards_go_back_to_todo_and_claiming_goes_on(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    assert hermes.poll().stopped is not None
    (claim,) = shown(hermes)
    assert (claim.card.id, claim.installation, claim.live) == (theirs, "other", True)

    assert adopted(hermes).complete
    card = team.card(theirs)
    assert (card.status, card.claimed_by, card.run_id, card.claim_expires_at) == (CardStatus.todo, None, None, None)

    team.clock.advance(timedelta(minutes=1))
    assert hermes.poll().stopped is None
    team.clock.advance(timedelta(seconds=13))
    hermes.desk.tick()
    assert hermes.state(theirs) is ClaimState.claimed
    assert hermes.run_of(theirs).key == f"{theirs}:1:act"


def test_a_claim_with_our_name_of_a_lost_database_is_given_back(team, hermes) -> None:
    card_id = claimed_by(team, "before the restore", "hermes/alone:earlier", "forgotten")
    hermes.poll()
    (claim,) = shown(hermes)
    assert claim.installation == "alone"
    assert adopted(hermes).given_back == (card_id,)
    assert team.status(card_id) is CardStatus.todo


def test_our_own_cards_are_neither_shown_nor_touched(team, hermes) -> None:
    ours = team.add("ours")
    hermes.poll()
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    hermes.poll()
    assert adopted(hermes).given_back == (theirs,)
    assert team.status(ours) is CardStatus.in_progress
    assert hermes.state(ours) is ClaimState.claimed


def test_a_foreign_name_over_our_running_claim_is_not_given_back(team, hermes) -> None:
    ours = team.add("ours")
    hermes.poll()
    team.board.write(ours, CardValues(claimed_by="hermes/other:ghost", run_id="theirs"))
    assert shown(hermes) == []
    assert adopted(hermes).complete
    assert team.status(ours) is CardStatus.in_progress


def test_a_claim_that_changed_since_it_was_shown_is_left_and_the_board_stays_stopped(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot", "first")
    hermes.poll()
    claims = shown(hermes)
    team.board.write(theirs, CardValues(run_id="second"))
    done = adopted(hermes, claims)
    assert not done.complete
    assert "claimed anew" in done.left[0][1]
    assert team.status(theirs) is CardStatus.in_progress
    with hermes.store.read() as uow:
        assert uow.claims.board(hermes.board.key).stopped_reason is not None


@pytest.mark.parametrize("where", ["Complete", "Todo"])
def test_a_card_that_a_person_moved_meanwhile_stays_where_they_put_it(team, hermes, where) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    hermes.poll()
    claims = shown(hermes)
    team.move(theirs, where)
    team.forget_calls()
    assert adopted(hermes, claims).complete
    assert "PATCH /v1/pages/{page_id}" not in team.calls_of(theirs)


def test_a_trashed_card_holds_nothing_up(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    hermes.poll()
    claims = shown(hermes)
    team.trash(theirs)
    assert adopted(hermes, claims).complete


def test_the_release_is_in_the_board_log(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    adopted(hermes)
    with hermes.store.read() as uow:
        (write,) = uow.claims.log_of(hermes.board.key, theirs)
    assert (write.kind, write.outcome, write.wanted["status"]) == (WriteKind.release, "applied", "todo")


def test_an_unanswered_release_keeps_everybody_away_and_is_finished_by_a_second_adopt(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    hermes.poll()
    claims = shown(hermes)
    team.fault(kind="drop", route="PATCH /v1/pages/{page_id}")
    done = adopted(hermes, claims)
    assert not done.complete
    assert adopted(hermes, claims).left[0][1].startswith("a write to it may still land")
    team.clock.advance(timedelta(seconds=66))
    assert adopted(hermes, claims).complete
    assert team.status(theirs) is CardStatus.todo


def test_adopting_twice_does_nothing_the_second_time(team, hermes) -> None:
    theirs = claimed_by(team, "theirs", "hermes/other:boot")
    hermes.poll()
    claims = shown(hermes)
    adopted(hermes, claims)
    team.forget_calls()
    assert adopted(hermes, claims).complete
    assert "PATCH /v1/pages/{page_id}" not in team.calls_of(theirs)


def test_on_a_shared_board_only_expired_claims_are_shown(team, hermes) -> None:
    claimed_by(team, "live", "hermes/other:boot")
    dead = claimed_by(team, "dead", "hermes/gone:boot", minutes=-60)
    assert [claim.card.id for claim in shown(hermes, shared=True)] == [dead]

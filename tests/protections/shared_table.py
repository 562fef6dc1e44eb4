"""Shared boards and lost answers (N1, N3, C3 to C7, C11): what is taken out, and which test must then fail."""

SHARED = "tests/hermes/claim/test_shared.py"
INSTALLATIONS = "tests/hermes/claim/test_installations.py"
CLAIMING = "hermes/claim/claiming.py"
RETRY = "hermes/claim/retry.py"
OFFERS = "hermes/claim/offers.py"
FINISH = "hermes/claim/finish.py"

PEOPLE = "tests/hermes/claim/test_people.py"
STUCK = "tests/hermes/claim/test_no_card_is_stuck.py"

TABLE = [
    (
        "E1 the log explains only a page that shows all it says",
        "hermes/claim/people.py",
        "    return all((shown[name] or None) == (wanted[name] or None) for name in shown.keys() & wanted.keys())\n",
        "    return True\n",
        f"{PEOPLE}::test_a_move_to_todo_is_not_taken_for_a_retry_of_ours_that_was_never_sent",
    ),
    (
        "C4 an attention that we have shown ourselves is not claimed again",
        CLAIMING,
        "shown={**work.hold.shown, RESUME: BY_THE_BOARD})\n",
        "shown={**work.hold.shown, RESUME: True})\n",
        f"{SHARED}::test_an_attention_that_we_have_shown_ourselves_is_not_claimed_again",
    ),
    (
        "E2 nothing is written after its hold",
        "store/claims.py",
        "        if in_time:\n",
        "        if False:\n",
        f"{PEOPLE}::test_what_was_decided_under_a_hold_is_not_written_after_it",
    ),
    (
        "E3 a claim in the trash is remembered",
        CLAIMING,
        "                state=ClaimState.gone,\n",
        "                state=ClaimState.gone,\n                run_id=None,\n",
        f"{SHARED}::test_E3_a_settling_claim_whose_card_is_trashed_and_restored_is_known_to_be_ours",
    ),
    (
        "B15 a clock that is another stops claims among rivals",
        OFFERS,
        "abs(skew) <= MOST_SKEW",
        "True",
        f"{SHARED}::test_B15_nothing_is_claimed_on_a_shared_board_whose_clock_is_another",
    ),
    (
        "B8 a query alone stops no board",
        OFFERS,
        "            as_read.append(board.read(card.id))\n",
        "            as_read.append(card)\n",
        f"{SHARED}::test_B8_a_query_that_lags_behind_a_claim_we_lost_stops_nothing",
    ),
    (
        "C4 the read-back decides",
        CLAIMING,
        '    if not _ours(work, card):\n        _not_ours(work, card, f"lost',
        '    if False:\n        _not_ours(work, card, f"lost',
        f"{INSTALLATIONS}::test_the_read_back_shows_who_won_when_both_had_read_before_either_wrote",
    ),
    (
        "C4 a claim acknowledged later than W is not started",
        CLAIMING,
        "    late = acknowledged - began > times.guard.total_seconds()\n",
        "    late = False\n",
        f"{INSTALLATIONS}::test_a_claim_acknowledged_too_late_is_not_started",
    ),
    (
        "C4 a late claim is left to a rival until it has expired",
        CLAIMING,
        "    if card.claim_expires_at is not None and card.claim_expires_at > now:\n        with",
        "    if False:\n        with",
        f"{SHARED}::test_C4_a_late_claim_is_left_to_a_rival_that_may_have_started",
    ),
    (
        "N1 a claim that has not left within W of its GET never leaves",
        CLAIMING,
        "    written = send_claim(work, send_by=began + times.guard.total_seconds())\n",
        "    written = send_claim(work)\n",
        f"{SHARED}::test_N1_a_claim_that_had_to_wait_longer_than_W_after_its_read_is_not_sent",
    ),
    (
        "N3 a lost answer is read",
        "hermes/claim/writing.py",
        "        seen = _read_back(work) if landed is not None else None\n",
        "        seen = None\n",
        f"{SHARED}::test_N3_a_claim_whose_answer_was_lost_is_read_at_once_and_then_settles",
    ),
    (
        "C7 settling goes by a clock that nobody sets",
        "hermes/claim/desk.py",
        "    if early := too_early(work.hold, work.clock):\n",
        "    if early := timedelta(0):\n",
        f"{SHARED}::test_C7_a_wall_clock_set_forward_does_not_shorten_the_settling",
    ),
    (
        "C4 a parked card settles before it goes on",
        RETRY,
        "    elif rivals:\n        claim_among_rivals(work, began)\n",
        "",
        f"{SHARED}::test_a_parked_card_that_a_rival_claims_first_is_the_rivals",
    ),
    (
        "C4 an interrupted claim for a parked run is not started",
        RETRY,
        "    if landed and rivals:\n",
        "    if False:\n",
        f"{SHARED}::test_a_parked_card_whose_new_claim_was_interrupted_is_parked_again_under_its_key",
    ),
    (
        "C4 its run is parked again",
        CLAIMING,
        '            uow.runs.park(work.hold.run_id, "its claim was acknowledged late")\n',
        "",
        f"{SHARED}::test_a_parked_card_whose_new_claim_was_interrupted_is_parked_again_under_its_key",
    ),
    (
        "C4 cards in Todo settle when their board becomes shared",
        "hermes/claim/work.py",
        "        if self.policy.shared:\n            return True\n",
        "",
        f"{SHARED}::test_cards_that_wait_in_todo_when_a_board_becomes_shared_settle_too",
    ),
    (
        "C4 a started card never goes back to Todo where another installation was seen",
        "hermes/claim/desk.py",
        "(never_in_todo(run, work.policy) or _stopped(work))",
        "never_in_todo(run, work.policy)",
        f"{SHARED}::test_a_failed_delivery_keeps_its_claim_where_another_installation_was_seen",
    ),
    (
        "C5 an expired claim of another is given time",
        OFFERS,
        "identity, asked_at - grace)",
        "identity, asked_at)",
        f"{SHARED}::test_C5_an_expired_claim_of_another_installation_is_shown_and_never_taken",
    ),
    (
        "C5 the GET before it is shown",
        "hermes/claim/adopt.py",
        "    if not claim.live and card.claim_expires_at != shown.claim_expires_at:\n",
        "    if False:\n",
        f"{SHARED}::test_C5_a_claim_that_was_extended_since_the_query_is_left_alone",
    ),
    (
        "C6 a poll notices a claim written over ours",
        OFFERS,
        "(_is_back(record, card, asked_at) or _overwritten(record, card, asked_at))",
        "_is_back(record, card, asked_at)",
        f"{SHARED}::test_C6_a_foreign_ghost_over_our_running_claim_is_written_over",
    ),
    (
        "C6 the ending says whose it is",
        FINISH,
        "    if card.run_id != run.id:  # somebody",
        "    if False:  # somebody",
        f"{SHARED}::test_C6_a_foreign_ghost_over_our_running_claim_is_written_over",
    ),
    (
        "C3 a claim that people gave away after it had expired is not taken back",
        "hermes/claim/upkeep.py",
        "moved(card, CardStatus.in_progress) or _given_away(work, run, card)",
        "moved(card, CardStatus.in_progress)",
        f"{SHARED}::test_a_claim_that_people_gave_away_after_it_had_expired_is_not_taken_back",
    ),
    (
        "C3 the ending of a stopped run is not written over another's claim",
        FINISH,
        "    elif run.state is RunState.cancelled and _theirs(work, run, card):\n",
        "    elif False:\n",
        f"{SHARED}::test_a_claim_that_people_gave_away_after_it_had_expired_is_not_taken_back",
    ),
    (
        "C11 our name with an unknown run stops a shared board",
        OFFERS,
        "    if shared and installation_of(card.claimed_by) != identity.installation:\n",
        "    if shared:\n",
        f"{SHARED}::test_C11_a_claim_in_our_name_that_our_database_does_not_know_stops_a_shared_board",
    ),
    (
        "W12 a card that is gone leaves its place",
        "hermes/claim/desk.py",
        "                uow.places.release_place(hold.run_id)  # of a claim that did not come to a run\n",
        "                pass\n",
        f"{STUCK}::test_a_card_that_is_gone_when_it_is_claimed_leaves_its_place_to_others",
    ),
    (
        "W12 no place is taken without the card",
        RETRY,
        "        uow.claims.update(work.hold, shown=work.hold.shown)\n    if not place:\n",
        "    if not place:\n",
        f"{STUCK}::test_a_process_that_stood_still_takes_no_place_for_a_card_that_another_has_finished",
    ),
]

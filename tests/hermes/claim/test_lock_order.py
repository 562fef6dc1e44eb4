"""A run, its place, its card: always locked in this order, so that the desk and a worker never wait for each other."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from hermes.model.claim import ClaimState

pytestmark = pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
NOBODY_HAS_THE_CARD = "SELECT 1 FROM cards WHERE card_id = %s FOR UPDATE NOWAIT"
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def test_a_desk_that_waits_for_a_run_does_not_hold_its_card(team: Any, hermes: Any) -> None:
    card = team.add()
    hermes.poll()
    hermes.fail_once(after=timedelta(seconds=30))
    hermes.desk.tick()
    assert hermes.state(card) is ClaimState.backoff
    hermes.clock.advance(timedelta(minutes=1))
    with (
        psycopg.connect(team.databases.url("alone")) as worker,
        psycopg.connect(worker.info.dsn, autocommit=True) as eye,
    ):
        worker.execute("UPDATE runs SET duplicates = 0")  # as one that ends it would: the run, then its card
        desk = threading.Thread(target=hermes.desk.tick)
        desk.start()
        while eye.execute(WAITS).fetchone() != (1,):
            assert desk.is_alive()
        worker.execute(NOBODY_HAS_THE_CARD, [card])
        worker.commit()
        desk.join(30)
    assert hermes.state(card) is ClaimState.claimed

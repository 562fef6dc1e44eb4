"""FAILURES D3: the database fails over to a replica that lost the last commits. For Hermes that is a restored database:
what the board shows and the database does not know stops the claims until a person has looked."""

from __future__ import annotations

import shutil

import psycopg
import pytest
from sqlalchemy import make_url

from hermes.model.card import CardStatus
from hermes.testing.databases import Databases


def replica(databases: Databases, name: str) -> None:
    """A second database under `name`, as the first is at this moment. Nobody may be connected to the first."""
    first, second = make_url(databases.url("alone")), make_url(databases.url(name, tables=False))
    if databases.kind == "sqlite":
        shutil.copy(str(first.database), str(second.database))
        return
    with psycopg.connect(databases.url("alone").rsplit("/", 1)[0] + "/postgres", autocommit=True) as admin:
        admin.execute(f'DROP DATABASE "{second.database}" WITH (FORCE)'.encode())
        admin.execute(f'CREATE DATABASE "{second.database}" TEMPLATE "{first.database}"'.encode())


@pytest.mark.parametrize("finished", [False, True])
def test_D3_a_fail_over_to_a_replica_that_lost_the_last_commits_claims_nothing_more(team, hermes, finished) -> None:
    hermes.poll()
    hermes.store.close()  # it replicated up to here
    replica(team.databases, "behind")
    card_id = team.add("paid already")
    hermes.poll()
    if finished:
        assert hermes.work() == 1
    else:
        assert len(hermes.lease()) == 1, "its effects have begun"
    other = team.add("not yet seen")

    after = team.installation("behind", lease=hermes.policy.lease)
    after.name = hermes.name
    after.restart("boot-2")
    for _ in range(5):
        taken = after.poll()
        team.clock.advance(hermes.policy.lease)
    assert "restored or copied" in str(taken.stopped)
    assert after.lease() == [], "neither the card that was under way nor another one runs"
    assert team.status(card_id) is CardStatus.in_progress
    assert team.status(other) is CardStatus.todo

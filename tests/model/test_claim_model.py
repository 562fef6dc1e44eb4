"""In every small world the claim protocol holds; without any one of its rules it does not. The rest: `explore.py`."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from claim_model.cases import LIMITS, PROPERTIES, RULES, Limit, Rule, judged
from claim_model.search import Found, explore
from claim_model.settings import Rules, Settings

QUICK = [rule for rule in RULES if os.environ.get("HERMES_MODEL") == "all" or len(rule.world.modes) == 1]
"""Worlds of rivals take half a minute each: HERMES_MODEL=all, or `make model`."""
ROOT = Path(__file__).resolve().parents[2]


@cache
def holds(settings: Settings) -> Found:
    wanted = judged(settings)
    return explore(settings, until=wanted, ignoring=frozenset(PROPERTIES) - wanted)


def breaks(settings: Settings, name: str) -> Found:
    return explore(settings, until=frozenset({name}), ignoring=frozenset(PROPERTIES) - {name}, live=name == "LIVE")


def way(found: Found) -> str:
    return "\n".join(f"{name}:\n  " + "\n  ".join(steps) for name, steps in found.broken.items())


@pytest.mark.parametrize("rule", QUICK, ids=lambda rule: rule.name)
def test_with_the_rule_everything_holds_and_without_it_the_property_breaks(rule: Rule) -> None:
    held = holds(rule.world)
    assert held.complete
    assert not held.broken, way(held)
    without = breaks(rule.without(), rule.breaks)
    assert rule.breaks in without.broken, f"nobody misses the rule in {without.states} states"
    print(way(without))


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_known_limit_of_the_code_is_still_there(limit: Limit) -> None:
    """When the code is cured, the model follows it and the limit becomes a rule."""
    found = breaks(limit.world, limit.breaks)
    assert limit.breaks in found.broken
    print(way(found))


def test_every_rule_of_the_model_is_taken_out_by_some_case() -> None:
    taken_out = {name for rule in RULES for name in rule.rules}
    assert taken_out == set(Rules.__dataclass_fields__)


def test_every_rule_names_code_that_is_there() -> None:
    for rule in RULES:
        file, _, function = rule.where.partition(":")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {function}(" in text or not function, rule.where


def test_no_world_passes_for_want_of_states() -> None:
    assert all(holds(rule.world).states > 20 for rule in QUICK)

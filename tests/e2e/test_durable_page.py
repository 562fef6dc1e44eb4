"""docs/durable.md is true: its blocks run, its own tests pass, and each anti-pattern meets what the page says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from hermes.durable import function
from hermes.durable.settings import EngineSettings
from hermes.model.run import RunState
from hermes.testing.clock import FakeClock
from hermes.testing.databases import sqlite_files
from hermes.testing.durable import Durable, durable_in
from hermes.testing.trial import eventually

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "durable.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- (file|from): (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def files() -> dict[str, str]:
    """What the page writes into files: blocks of one name follow each other."""
    found: dict[str, list[str]] = defaultdict(list)
    for kind, name, code in BLOCK.findall(PAGE):
        if kind == "file":
            found[name].append(code)
    return {name: "\n\n".join(blocks) for name, blocks in found.items()}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("page")
    for name, code in files().items():
        (folder / name).write_text(code, encoding="utf-8")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def shop(page: Path) -> ModuleType:
    return importlib.import_module("shop")


@pytest.fixture
def antipatterns(page: Path) -> ModuleType:
    found = importlib.import_module("antipatterns")
    found.KEYS.clear()
    return found


@pytest.fixture
def durable(folder: Path) -> Iterator[Durable]:
    with durable_in(folder) as durable:
        yield durable


def test_every_block_is_a_file_or_of_one() -> None:
    assert [code for kind, _, code in BLOCK.findall(PAGE) if not kind] == []


@pytest.mark.parametrize(("name", "code"), [(name, code) for kind, name, code in BLOCK.findall(PAGE) if kind == "from"])
def test_what_is_shown_of_a_recipe_stands_in_it(name: str, code: str) -> None:
    recipe = (DOCS / name).read_text(encoding="utf-8")
    assert "".join(code.split()) in "".join(recipe.split()), "but for where its lines break"


def test_the_tests_of_the_tutorial_pass(page: Path) -> None:
    plugin = ["-p", "hermes.testing.plugin"] if not _installed() else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "test_orders.py"]
    ran = subprocess.run(command, cwd=page, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def _installed() -> bool:
    return any(entry.value == "hermes.testing.plugin" for entry in entry_points(group="pytest11"))


# -- the reference


def test_reminders_and_recorded_values(durable: Durable, shop: ModuleType) -> None:
    began = durable.clock.now()
    run = durable.run(shop.remind_three_times, "Ada")
    assert durable.clock.now() == began + 21 * DAY
    assert len(run.happened("result")) == 3


@pytest.mark.parametrize(("approved", "result"), [(True, "approved"), (False, "refused"), (None, "nobody decided")])
def test_events(durable: Durable, shop: ModuleType, approved: bool | None, result: str) -> None:
    run = durable.start(shop.decide, "42")
    if approved is None:
        durable.skip(4 * HOUR)
    else:
        durable.fire(shop.DECIDED, "42", shop.Decision(approved=approved))
    assert run.result == result
    assert len(run.happened("fire")) == (approved is not None)


def test_races_and_fan_out(durable: Durable, shop: ModuleType) -> None:
    assert durable.run(shop.paid_or_given_up, "42").result == "given up"
    run = durable.start(shop.paid_or_given_up, "43")
    durable.fire(shop.DECIDED, "43", shop.Decision(approved=True))
    assert run.result == "approved"
    assert durable.run(shop.cheapest, ["abc", "a", "ab"]).result == 1


def test_children_patches_and_empty_histories(durable: Durable, shop: ModuleType) -> None:
    assert durable.run(shop.deliver_all, ["1", "2"]).result == ["1 delivered", "2 delivered"]
    assert durable.run(shop.welcome, "Ada").result == [1, 2]
    run = durable.start(shop.heartbeat, "Ada", 395).finish()
    assert (run.result, run.row.continued) == (400, 5)


@pytest.mark.parametrize("fired", [True, False])
def test_one_round_asks_once_after_the_event_or_the_delay(durable: Durable, shop: ModuleType, fired: bool) -> None:
    began = durable.clock.now()
    run = durable.start(shop.one_round, "r1")
    if fired:
        durable.fire(shop.SETTLED, "r1", {"any": "thing"})
    assert run.finish().result == 2
    assert durable.clock.now() - began == (timedelta(0) if fired else timedelta(minutes=10))


# -- the anti-patterns


def test_a_loop_in_a_command_is_ended_by_its_time_out(durable: Durable, antipatterns: ModuleType) -> None:
    @function
    async def job() -> str:
        return str(await antipatterns.loop_with_a_sleep("r1"))

    run = durable.start(job)
    (ended,) = run.happened("failure")
    assert ended.detail["error"] == "UnknownOutcome: no answer within 0.2 s"
    eventually("what the loop still brings is a receipt", lambda: run.happened("receipt"))


def test_a_command_cannot_sleep(durable: Durable, antipatterns: ModuleType) -> None:
    @function
    async def job() -> None:
        await antipatterns.delay_in_a_command()

    assert "RuntimeError" in str(durable.start(job).error)


def test_a_poll_without_an_end_is_refused(durable: Durable, antipatterns: ModuleType) -> None:
    run = durable.start(antipatterns.unbounded)
    assert "needs a cap" in str(run.error)
    assert antipatterns.KEYS == []


def test_a_history_ends_where_the_limits_say(folder: Path, antipatterns: ModuleType) -> None:
    assert (EngineSettings().warn_steps, EngineSettings().max_steps) == (2_000, 10_000)
    with sqlite_files(folder) as databases:
        clock = FakeClock()
        short = Durable(databases.open(clock, "short"), clock, EngineSettings(warn_steps=20, max_steps=50))
        run = short.start(antipatterns.every_second_for_hours)
        short.skip(timedelta(minutes=2))
        assert run.state is RunState.parked
        assert "more than 50 steps" in str(run.reason)
        assert len(run.happened("long history")) == 1
        short.close()


def test_a_retry_loop_sends_another_key_each_time_and_multiplies(durable: Durable, antipatterns: ModuleType) -> None:
    assert durable.run(antipatterns.retry_loop, "r1").result == "gave up"
    assert len(set(antipatterns.KEYS)) == 3
    assert len(antipatterns.KEYS) == 18


def test_chance_parks_the_run(durable: Durable, antipatterns: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([0.1, 0.9])
    monkeypatch.setattr(antipatterns.random, "random", lambda: next(drawn))
    run = durable.start(antipatterns.chance)
    durable.skip(5 * HOUR)
    assert run.state is RunState.parked
    assert "the code changed under this run: step 2: recorded delay, now event NEWS" in str(run.reason)


def test_an_id_made_up_on_the_spot_parks_the_run(durable: Durable, antipatterns: ModuleType) -> None:
    run = durable.start(antipatterns.made_up_on_the_spot)
    durable.skip(HOUR)
    assert run.state is RunState.parked
    assert re.search(r"recorded event NEWS for \S+, now event NEWS for", str(run.reason))

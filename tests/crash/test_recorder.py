"""The oracle itself: what it calls a change, and that it forgets nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing.recorder import Recorder, changes_by_key, read_log, requests_by_key

pytestmark = pytest.mark.always


def test_a_keyed_service_changes_something_once_for_each_key(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "log")
    first = recorder.change("keyed", "pay", "k1", {"amount": 1})
    again = recorder.change("keyed", "pay", "k1", {"amount": 1})
    other = recorder.change("keyed", "pay", "k2", {"amount": 1})
    assert (first.changed, again.changed, other.changed) == (True, False, True)
    assert again.receipt == first.receipt != other.receipt
    assert changes_by_key(read_log(tmp_path / "log")) == {"k1": 1, "k2": 1}
    assert requests_by_key(read_log(tmp_path / "log")) == {"k1": 2, "k2": 1}


@pytest.mark.parametrize("service", ["checkable", "naive"])
def test_other_services_change_something_at_every_request(tmp_path: Path, service: str) -> None:
    recorder = Recorder(tmp_path / "log")
    assert recorder.look_up(service, "pay", "k1") is None
    receipts = [recorder.change(service, "pay", "k1", None).receipt for _ in range(2)]
    assert recorder.look_up(service, "pay", "k1") == receipts[0] != receipts[1]
    log = read_log(tmp_path / "log")
    assert changes_by_key(log) == {"k1": 2}
    assert [entry.looked_up for entry in log] == [True, False, False, True]


def test_a_restarted_service_knows_its_keys(tmp_path: Path) -> None:
    first = Recorder(tmp_path / "log").change("keyed", "pay", "k1", None)
    again = Recorder(tmp_path / "log").change("keyed", "pay", "k1", None)
    assert (again.changed, again.receipt) == (False, first.receipt)


def test_a_line_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    Recorder(tmp_path / "log").change("naive", "pay", "k1", "text")
    with open(tmp_path / "log", "a", encoding="utf-8") as log:
        log.write('{"receipt": "half')
    assert [entry.body for entry in read_log(tmp_path / "log")] == ["text"]

"""Background loops: called, never twice at once, never stopped by an error."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from hermes.schedule.ticker import Ticker

SOON = timedelta(seconds=0.02)


@pytest.fixture
def ticker(metrics):
    ticker = Ticker(metrics)
    yield ticker
    ticker.stop()


def test_each_loop_is_called_at_once_and_again(ticker):
    seen = {name: threading.Semaphore(0) for name in ("scheduler", "rescuer")}
    for name, semaphore in seen.items():
        ticker.add(name, SOON, semaphore.release)
    ticker.start()
    for semaphore in seen.values():
        for _ in range(3):
            assert semaphore.acquire(timeout=10)


def test_a_loop_is_never_running_twice(ticker):
    inside, most, calls = [], [], threading.Semaphore(0)

    def tick():
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.05)
        inside.pop()
        calls.release()

    ticker.add("slow", SOON, tick)
    ticker.start()
    for _ in range(4):
        assert calls.acquire(timeout=10)
    assert max(most) == 1


def test_a_slow_loop_does_not_hold_up_another(ticker):
    go, quick = threading.Event(), threading.Semaphore(0)
    ticker.add("slow", SOON, lambda: go.wait(10))
    ticker.add("quick", SOON, quick.release)
    ticker.start()
    for _ in range(5):
        assert quick.acquire(timeout=10)
    go.set()


def test_an_error_is_counted_and_the_loop_goes_on(ticker, metrics):
    answers = iter([RuntimeError("one"), RuntimeError("two")])
    calls = threading.Semaphore(0)

    def tick():
        error = next(answers, None)
        calls.release()
        if error:
            raise error

    ticker.add("loop", SOON, tick)
    ticker.start()
    for _ in range(4):
        assert calls.acquire(timeout=10)
    assert metrics.snapshot().values["tick_failures"] == 2
    assert ticker.failing() == {}


def test_a_failing_loop_is_named(metrics):
    ticker = Ticker(metrics)
    ticker.add("loop", SOON, lambda: 1 / 0)
    ticker.call("loop")
    ticker.call("loop")
    assert ticker.failing() == {"loop": 2}


def test_stop_returns_when_nothing_runs(ticker):
    started, ended = threading.Event(), threading.Event()

    def tick():
        started.set()
        threading.Event().wait(0.1)
        ended.set()

    ticker.add("loop", SOON, tick)
    ticker.start()
    started.wait(10)
    ticker.stop()
    assert ended.is_set()
    ticker.stop()


def test_wake_calls_a_loop_before_its_time(ticker):
    calls = threading.Semaphore(0)
    ticker.add("loop", timedelta(hours=1), calls.release)
    ticker.start()
    assert calls.acquire(timeout=10)
    ticker.wake("loop")
    assert calls.acquire(timeout=10)
    ticker.wake("nobody")


def test_two_loops_of_one_name_are_a_mistake(ticker):
    ticker.add("loop", SOON, print)
    with pytest.raises(ValueError, match="already"):
        ticker.add("loop", SOON, print)

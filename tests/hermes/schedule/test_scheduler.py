"""The scheduler loop on a real database: who runs what when, and what is remembered of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from hermes.errors import Fatal, Misconfigured, Retryable, Unauthorized, UnknownOutcome
from hermes.ports.polls import PollStatus
from hermes.schedule.loop import Scheduler
from hermes.schedule.occurrence import OccurrenceOutcome

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def test_an_idle_poll_runs_once_an_interval_and_leaves_no_occurrences(
    scheduler, poll, pass_time, look, occurrences, metrics
):
    scheduler.apply([poll()])
    assert pass_time(HOUR) in (6, 7)
    row = look()
    assert occurrences() == []
    assert row.health == "ok"
    assert row.occurrence_count == metrics.snapshot().values["polls_succeeded"]
    assert row.last_ok_at == row.last_run_at
    assert row.next_due_at > row.last_run_at


def test_an_occurrence_that_found_something_is_recorded_with_its_counts(
    scheduler, poll, pass_time, runner, look, occurrences
):
    runner.answers = [OccurrenceOutcome(checked=9, matched=4, changed=3, claimed=2, note="2 wait", cursor="c9")]
    scheduler.apply([poll()])
    pass_time(5 * MINUTE)
    (seen,) = occurrences()
    assert (seen.state, seen.checked, seen.matched, seen.changed, seen.claimed) == ("ok", 9, 4, 3, 2)
    assert seen.note == "2 wait"
    assert seen.key == f"poll:tasks@{seen.due_at.isoformat()}"
    assert look().cursor == "c9"
    assert look().claimed_count == 2


def test_bookkeeping_of_nothing_is_two_writes(scheduler, poll, clock, database):
    scheduler.apply([poll()])
    clock.advance(10 * SECOND)
    statements = []
    from sqlalchemy import event

    for engine in {database.engine, database._bookkeeping}:
        event.listen(engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert scheduler.tick() == 1
    writes = [text for text in statements if not text.lstrip().upper().startswith(("SELECT", "BEGIN", "PRAGMA"))]
    assert [text.split()[0] for text in writes] == ["UPDATE", "UPDATE"]


def test_two_schedulers_on_one_database_run_each_occurrence_once(database, runner, poll, clock, metrics):
    first = Scheduler(database, "boot-1", runner, metrics=metrics)
    second = Scheduler(database, "boot-2", runner, metrics=metrics)
    polls = [poll(f"poll-{n}") for n in range(20)]
    for scheduler in (first, second):
        scheduler.apply(polls)
    clock.advance(MINUTE)
    barrier = threading.Barrier(2)

    def tick(scheduler):
        barrier.wait()
        return scheduler.tick()

    with ThreadPoolExecutor(2) as pool:
        counts = list(pool.map(tick, (first, second)))
    assert sum(counts) == 20
    assert len({(name, due) for name, due, _ in runner.calls}) == len(runner.calls) == 20


def test_restart_after_an_occurrence_does_not_repeat_it(database, runner, poll, clock, metrics):
    """T4: it ran at 22:00, the process came back at 22:30."""
    clock.step_wall(datetime(2026, 1, 5, 20, 59, tzinfo=clock.now().tzinfo) - clock.now())
    Scheduler(database, "boot-1", runner, metrics=metrics).apply([poll(cron="0 22 * * *")])
    clock.advance(MINUTE)
    first = Scheduler(database, "boot-1", runner, metrics=metrics)
    first.apply([poll(cron="0 22 * * *")])
    assert first.tick() == 1
    clock.advance(30 * MINUTE)
    second = Scheduler(database, "boot-2", runner, metrics=metrics)
    second.apply([poll(cron="0 22 * * *")])
    assert second.tick() == 0
    clock.advance(timedelta(hours=23, minutes=30))
    assert second.tick() == 1


def test_a_scheduler_that_died_leaves_the_same_occurrence_due(database, runner, poll, clock, metrics, look):
    dead = Scheduler(database, "boot-1", runner, metrics=metrics)
    dead.apply([poll()])
    clock.advance(10 * SECOND)
    with database.write() as unit:
        (lost,) = unit.polls.lease_due("boot-1", MINUTE, 5, lambda *_: True)
    alive = Scheduler(database, "boot-2", runner, metrics=metrics)
    alive.apply([poll()])
    assert alive.tick() == 0
    clock.advance(MINUTE)
    assert alive.tick() == 1
    assert runner.calls[0][1] == lost.due_at
    assert runner.calls[0][2].fence == lost.fence + 1
    # The dead one wakes up and may change nothing.
    before = look()
    dead._finish(poll(), lost, OccurrenceOutcome(claimed=5, error=Fatal("late")))
    assert look() == before


def test_a_poll_leased_here_is_not_run_twice_at_once(database, poll, clock, metrics, look):
    inside, go = threading.Event(), threading.Event()
    calls = []

    def run(*_):
        calls.append(1)
        inside.set()
        go.wait(10)
        return OccurrenceOutcome()

    with ThreadPoolExecutor(4) as pool:
        scheduler = Scheduler(database, "boot-1", run, metrics=metrics, executor=pool)
        scheduler.apply([poll(every="10s")])
        clock.advance(10 * SECOND)
        assert scheduler.tick() == 1
        inside.wait(10)
        for _ in range(12):
            clock.advance(20 * SECOND)
            assert scheduler.tick() == 0, "its lease is kept alive"
        assert look().lease_until > clock.now()
        go.set()
        assert scheduler.wait_idle(10)
    assert calls == [1]
    assert look().lease_owner is None


def test_a_tick_may_be_for_some_polls_only(scheduler, poll, clock, runner):
    scheduler.apply([poll("one"), poll("two"), poll("three")])
    clock.advance(MINUTE)
    assert scheduler.tick(only=["two", "nobody"]) == 1
    assert [name for name, *_ in runner.calls] == ["two"]
    assert scheduler.tick() == 2


def test_stop_takes_nothing_new(scheduler, poll, clock):
    scheduler.apply([poll()])
    clock.advance(MINUTE)
    scheduler.stop()
    assert scheduler.tick() == 0
    assert scheduler.wait_idle(0)


# failures


def test_an_outage_never_disables_a_poll_and_is_tried_ever_more_rarely(
    scheduler, poll, runner, pass_time, look, occurrences
):
    runner.always = Retryable("connection refused")
    scheduler.apply([poll(every="1m")])
    attempts = pass_time(timedelta(hours=12))
    row = look()
    assert row.status is PollStatus.active
    assert row.health == "failing"
    assert row.failure_count == attempts
    assert row.fatal_count == 0
    assert row.last_error == "connection refused"
    assert 24 <= attempts <= 36, "every 30 minutes at last"
    assert occurrences()[0].state == "failed"
    runner.always = OccurrenceOutcome()
    pass_time(HOUR)
    row = look()
    assert (row.health, row.failure_count, row.failing_since, row.last_error) == ("ok", 0, None, None)


def test_the_first_retry_of_a_rare_poll_does_not_wait_for_its_next_time(scheduler, poll, runner, clock, pass_time):
    runner.answers = [UnknownOutcome("502")]
    scheduler.apply([poll(cron="0 9 * * *")])
    clock.advance(timedelta(hours=22, minutes=59))
    pass_time(5 * MINUTE)
    assert len(runner.calls) == 2
    assert runner.calls[0][1] == runner.calls[1][1], "the same occurrence"


def test_a_pause_that_was_asked_for_is_kept(scheduler, poll, runner, pass_time, look):
    runner.answers = [Retryable("429", retry_after=460)]
    scheduler.apply([poll(every="1m")])
    pass_time(MINUTE)
    assert look().next_start_at - look().last_run_at >= timedelta(seconds=460)
    assert pass_time(6 * MINUTE) == 0
    assert pass_time(3 * MINUTE) > 0


def test_what_only_a_person_can_cure_disables_after_n_with_the_cause_and_the_cure(
    scheduler, poll, runner, pass_time, look, occurrences
):
    runner.always = Unauthorized("the token is refused: make a new one and set NOTION_TOKEN")
    scheduler.apply([poll()])
    assert pass_time(timedelta(hours=6)) == 3
    row = look()
    assert row.status is PollStatus.disabled
    assert row.health == "disabled"
    assert "3 failures in a row" in row.disabled_reason
    assert "the token is refused" in row.disabled_reason
    assert "hermes-poll polls resume tasks" in row.disabled_reason
    assert {seen.state for seen in occurrences()} == {"failed"}


def test_an_outage_in_between_does_not_forgive_and_does_not_count(scheduler, poll, runner, pass_time, look):
    fatal, outage = Misconfigured("no column Status"), Retryable("down")
    runner.answers = [fatal, outage, outage, fatal, outage]
    runner.always = fatal
    scheduler.apply([poll()])
    pass_time(timedelta(hours=6))
    assert look().status is PollStatus.disabled
    assert look().fatal_count == 3
    assert len(runner.calls) == 6


def test_success_starts_the_count_afresh(scheduler, poll, runner, pass_time, look):
    runner.answers = [Fatal("x"), Fatal("x"), OccurrenceOutcome(), Fatal("x"), Fatal("x")]
    scheduler.apply([poll()])
    pass_time(timedelta(hours=6))
    assert look().status is PollStatus.active


def test_a_bug_in_one_poll_is_that_polls_failure_and_the_others_go_on(scheduler, poll, runner, clock, look):
    def run(config, *_):
        if config.id == "bad":
            raise KeyError("ntn_secretsecret \x1b[31m\nsecond line")
        return OccurrenceOutcome()

    scheduler._run = run
    scheduler._redact = lambda text: text.replace("ntn_secretsecret", "***")
    scheduler.apply([poll("bad"), poll("good")])
    clock.advance(MINUTE)
    assert scheduler.tick() == 2
    assert look("good").health == "ok"
    bad = look("bad")
    assert bad.health == "failing"
    assert bad.last_error.startswith("KeyError: '*** ")
    assert bad.last_error.isprintable()
    assert bad.fatal_count == 0


def test_a_long_error_is_cut(scheduler, poll, runner, clock, look):
    runner.always = Retryable("<html>" + "x" * 5000)
    scheduler.apply([poll()])
    clock.advance(MINUTE)
    scheduler.tick()
    assert len(look().last_error) == 500


def test_a_new_poll_never_looks_like_an_idle_one(scheduler, poll, look):
    scheduler.apply([poll()])
    assert look().health == "new"


# people


def test_run_now_runs_once_is_recorded_and_moves_nothing(scheduler, poll, pass_time, clock, look, occurrences):
    scheduler.apply([poll(every="2h")])
    pass_time(MINUTE)
    before = look().next_due_at
    assert scheduler.run_now("tasks")
    assert scheduler.tick() == 1
    assert scheduler.tick() == 0
    (seen,) = occurrences()
    assert seen.by_hand
    assert look().next_due_at == before
    assert not scheduler.run_now("nobody")


def test_run_now_works_for_a_paused_poll_and_leaves_it_paused(scheduler, poll, pass_time, look):
    scheduler.apply([poll()])
    assert scheduler.pause("tasks")
    assert pass_time(HOUR) == 0
    scheduler.run_now("tasks")
    assert scheduler.tick() == 1
    assert look().status is PollStatus.paused
    assert scheduler.resume("tasks")
    assert scheduler.tick() == 1, "due at once"


def test_asking_again_while_it_runs_is_not_forgotten(scheduler, poll, clock, runner):
    scheduler.apply([poll(every="2h")])
    clock.advance(MINUTE)
    scheduler.tick()
    asked = []

    def run(*_):
        clock.advance(SECOND)
        if not asked:
            asked.append(scheduler.run_now("tasks"))
        return OccurrenceOutcome()

    scheduler._run = run
    scheduler.run_now("tasks")
    assert scheduler.tick() == 2


def test_resume_of_a_disabled_poll_forgets_its_failures(scheduler, poll, runner, pass_time, look):
    runner.always = Fatal("gone")
    scheduler.apply([poll()])
    pass_time(timedelta(hours=6))
    runner.always = OccurrenceOutcome()
    assert scheduler.resume("tasks")
    assert scheduler.tick() == 1
    row = look()
    assert (row.status, row.health, row.fatal_count, row.disabled_reason) == (PollStatus.active, "ok", 0, None)


# late


def test_after_a_sleep_of_two_days_there_is_one_late_occurrence_recorded_as_such(
    scheduler, poll, pass_time, clock, occurrences
):
    scheduler.apply([poll()])
    pass_time(HOUR)
    clock.advance(timedelta(days=2))
    assert pass_time(MINUTE) in (1, 2), "the late one and perhaps the next regular one"
    (seen,) = occurrences()
    assert seen.note.startswith("late: was due 2026-01-05 10:00:19Z, missed occurrences run once")


def test_the_skip_policy_runs_nothing_late_and_says_so(scheduler, poll, pass_time, clock, look, occurrences):
    scheduler.apply([poll(misfire={"policy": "skip", "grace": "5m"})])
    pass_time(HOUR)
    clock.advance(timedelta(days=2))
    ran_at = look().last_run_at
    assert scheduler.tick() == 0
    (seen,) = occurrences()
    assert seen.state == "skipped"
    assert "late, and the misfire policy is skip" in seen.note
    assert look().last_run_at == ran_at
    assert pass_time(10 * MINUTE) == 1, "the next one in time"


def test_after_a_sleep_late_polls_start_spread_out(scheduler, poll, pass_time, clock, runner):
    scheduler.apply([poll(f"poll-{n}") for n in range(60)])
    pass_time(20 * MINUTE)
    runner.calls.clear()
    clock.advance(timedelta(days=2))
    counts = []
    for _ in range(31):
        counts.append(scheduler.tick())
        clock.advance(SECOND)
    assert len({name for name, *_ in runner.calls}) == 60
    assert max(counts) <= 10


def test_a_due_instant_within_grace_is_not_called_late(scheduler, poll, clock, occurrences):
    scheduler.apply([poll()])
    clock.advance(4 * MINUTE)
    assert scheduler.tick() == 1
    assert occurrences() == []


# files


def test_an_edit_keeps_cursor_and_counters_and_lets_a_disabled_poll_try_again(scheduler, poll, runner, pass_time, look):
    runner.answers = [OccurrenceOutcome(cursor="c1", checked=5)]
    runner.always = Fatal("no column")
    scheduler.apply([poll()])
    pass_time(timedelta(hours=6))
    assert look().status is PollStatus.disabled
    changes = scheduler.apply([poll(priority=1)])
    assert changes.edited == ("tasks",)
    runner.always = OccurrenceOutcome()
    assert pass_time(MINUTE) >= 1
    row = look()
    assert (row.status, row.cursor, row.checked_count, row.priority) == (PollStatus.active, "c1", 5, 1)


def test_an_edit_of_something_else_keeps_the_due_instant_and_a_new_schedule_does_not(scheduler, poll, pass_time, look):
    scheduler.apply([poll(every="6h")])
    pass_time(MINUTE)
    due = look().next_due_at
    scheduler.apply([poll(every="6h", owner="ada")])
    assert look().next_due_at == due
    scheduler.apply([poll(every="5h")])
    assert look().next_due_at < due


def test_a_removed_poll_stops_and_one_that_returns_goes_on_where_it_was(scheduler, poll, runner, pass_time, look):
    runner.answers = [OccurrenceOutcome(cursor="c1")]
    scheduler.apply([poll()])
    pass_time(MINUTE)
    assert scheduler.apply([]).removed == ("tasks",)
    assert pass_time(HOUR) == 0
    assert look().status is PollStatus.removed
    assert not scheduler.run_now("tasks")
    assert scheduler.apply([poll()]).returned == ("tasks",)
    assert look().cursor == "c1"
    assert pass_time(MINUTE) == 1


def test_enabled_false_switches_off_and_on(scheduler, poll, pass_time, look):
    scheduler.apply([poll(enabled=False)])
    assert pass_time(HOUR) == 0
    assert look().health == "off"
    scheduler.apply([poll()])
    assert pass_time(10 * SECOND) == 1


def test_a_persons_pause_outlives_an_edit(scheduler, poll, pass_time, look):
    scheduler.apply([poll()])
    scheduler.pause("tasks")
    scheduler.apply([poll(owner="ada")])
    assert look().status is PollStatus.paused
    assert pass_time(HOUR) == 0


def test_a_process_with_an_older_file_leaves_the_poll_to_one_that_has_the_newer(database, runner, poll, clock, metrics):
    old = Scheduler(database, "boot-1", runner, metrics=metrics)
    old.apply([poll()])
    new = Scheduler(database, "boot-2", runner, metrics=metrics)
    new.apply([poll(owner="ada")])
    clock.advance(MINUTE)
    assert old.tick() == 0
    assert new.tick() == 1
    assert runner.calls[0][0] == "tasks"


def test_one_poll_that_hangs_does_not_hold_up_the_others(database, poll, clock, metrics):
    go = threading.Event()
    done = []

    def run(config, *_):
        if config.id == "slow":
            go.wait(10)
        done.append(config.id)
        return OccurrenceOutcome()

    with ThreadPoolExecutor(2) as pool:
        scheduler = Scheduler(database, "boot-1", run, metrics=metrics, slots=2, executor=pool)
        scheduler.apply([poll("slow", priority=1), *(poll(f"quick-{n}") for n in range(10))])
        clock.advance(MINUTE)
        for _ in range(2000):
            scheduler.tick()
            if len(done) == 10:
                break
            threading.Event().wait(0.005)
        assert sorted(done) == sorted(f"quick-{n}" for n in range(10))
        go.set()
        assert scheduler.wait_idle(10)


@pytest.mark.parametrize("count", [200])
def test_more_urgent_polls_start_first(scheduler, poll, clock, runner, count):
    scheduler.apply([poll(f"poll-{n}", priority=1 + n % 9) for n in range(count)])
    clock.advance(MINUTE)
    while scheduler.tick():
        pass
    priorities = [1 + int(name.removeprefix("poll-")) % 9 for name, *_ in runner.calls]
    assert len(priorities) == count
    assert priorities == sorted(priorities)

"""Planted bugs that the tests with real processes must find: (name, file, old, new, test). Minutes, not seconds."""

POINTS = "tests/crash/test_points.py::test_"
SUSPENDED = "tests/crash/test_suspended.py::test_"
WORKERS = "tests/crash/test_workers.py::test_"

TABLE = [
    (
        "Crash: a write that waited too long is not sent",
        "sources/notion/client.py",
        "        if send_by is not None and self._clock.boot_seconds() > send_by:\n",
        "        if False:\n",
        f"{SUSPENDED}a_suspended_process_that_wakes_up_changes_nothing[A4]",
    ),
    (
        "Crash: our name on the page is not ownership",
        "hermes/claim/claiming.py",
        "    if work.policy.shared:\n        _leave_unfinished_claim(work, card)\n",
        "    if work.policy.shared:\n        start(work, card, None)\n",
        f"{POINTS}on_a_shared_board_a_claim_that_was_never_started_is_shown_to_people",
    ),
    (
        "Crash: the wait-out after a write of unknown outcome",
        "hermes/claim/work.py",
        "    return now + 2 * board.times.wait_out\n",
        "    return now + board.times.wait_out / 10\n",
        f"{POINTS}a_claim_that_lands_after_its_maker_died_is_found_and_kept[2.7]",
    ),
    (
        "Crash: the intent is written before the effect",
        "hermes/durable/command_step.py",
        "        reach(CrashPoint.before_intent)\n",
        "        early = self._call(command.call, command.result, attempt)\n"
        "        self._call = lambda *_: early\n"
        "        reach(CrashPoint.before_intent)\n",
        f"{POINTS}a_naive_effect_is_left_to_a_person[A8-0]",
    ),
    (
        "Crash: recovery is a repeated scan",
        "hermes/durable/worker.py",
        "                    next_rescue = self._clock.boot_seconds() + tick\n",
        '                    next_rescue = float("inf")\n',
        f"{WORKERS}W11_a_restarted_container_with_the_same_pid_is_somebody_else",
    ),
    (
        "Crash: a query alone never asks for a card again",
        "hermes/claim/finish.py",
        "    elif card.status is not CardStatus.todo:\n        work.let_go(",
        "    elif False:\n        work.let_go(",
        f"{POINTS}a_query_that_lags_behind_for_ever_asks_for_nothing_again",
    ),
    (
        "Crash: heartbeats come often enough",
        "hermes/durable/worker.py",
        "        while not self._stopped.wait(pause):\n",
        "        while not self._stopped.wait(pause * 9):\n",
        f"{WORKERS}W1_W10_a_command_of_two_leases_keeps_its_lease[one_blocking]",
    ),
    (
        "Crash: suspects are driven apart",
        "hermes/durable/worker.py",
        "                suspects=0 if watched else 1,\n",
        "                suspects=None,\n",
        "tests/hermes/durable/test_suspects.py::test_after_two_crashes_a_worker_starts_one_suspect_at_a_time",
    ),
    (
        "Crash: a stopping process gives back what nobody works on",
        "hermes/process.py",
        "            self.desk.close()\n",
        "            pass\n",
        f"{WORKERS}W6_sigterm_in_the_middle_leaves_nothing_in_progress",
    ),
]

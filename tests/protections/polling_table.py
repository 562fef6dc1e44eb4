"""Protections of polling and of asking a person: (name, file, old, new, test)."""

TESTS = "tests/hermes/durable/test_polling.py"
POLLING = "hermes/durable/polling.py"

TABLE = [
    (
        "Polling: a cap is needed",
        POLLING,
        "    if asks is None and deadline is None:\n",
        "    if False:\n",
        f"{TESTS}::test_what_it_cannot_do_is_said_at_the_call",
    ),
    (
        "Polling: no wait is longer than what is left until the deadline",
        "store/steps.py",
        "    return now + new.wait if new.not_after is None else min(now + new.wait, new.not_after)\n",
        "    return now + new.wait\n",
        f"{TESTS}::test_the_last_ask_is_made_when_the_deadline_is_over",
    ),
    (
        "Polling: the jitter differs from run to run",
        POLLING,
        "self._waits.wait(self._tries, delivery.run.id, delivery.last_seq)",
        "self._waits.wait(self._tries, delivery.last_seq)",
        f"{TESTS}::test_the_jitter_follows_from_run_and_step_alone",
    ),
    (
        "Polling: a flood of hints is no flood of asks",
        POLLING,
        "            self._heeds = False\n",
        "            pass\n",
        f"{TESTS}::test_a_flood_of_hints_makes_it_ask_twice_an_interval_at_most",
    ),
    (
        "Polling: a hint is no answer",
        POLLING,
        "                if self._until(last):\n",
        "                if self._until(last) or not pause._heeds:\n",
        f"{TESTS}::test_a_hint_proves_nothing_whatever_it_carries",
    ),
    (
        "Polling: an ask that fails is one without an answer",
        POLLING,
        "            except (Fatal, NotStorable, ForeignAwait):\n",
        "            except (Fatal, NotStorable, ForeignAwait, OSError):\n",
        f"{TESTS}::test_an_ask_that_fails_is_one_without_an_answer",
    ),
    (
        "A person is asked once",
        "hermes/durable/delivery.py",
        '            self._new.append(NewStep(handle.seq, StepKind.person, handle.name, result_json="null"))\n',
        "",
        f"{TESTS}::test_a_person_is_asked_once_and_the_run_goes_on_from_there",
    ),
    (
        "What failed before a person was asked is final",
        "store/steps.py",
        "        elif step.kind is StepKind.person:  # a resume goes on after it: what failed before is final\n",
        "        elif False:\n",
        f"{TESTS}::test_a_failure_before_a_person_was_asked_is_not_tried_again_in_its_old_place",
    ),
]

"""Protections of the database layer on SQLite and PostgreSQL: (name, file, old, new, test)."""

OUTAGES = "tests/store/test_outages.py"
MEET = "tests/store/test_concurrency.py"
ENGINE = "tests/hermes/durable/test_database_outages.py"

TABLE = [
    (
        "Database D4: what gave way is made again",
        "store/database.py",
        "        return trying_again(partial(together, self.write, change), self.clock.sleep)\n",
        "        return together(self.write, change)\n",
        f"{OUTAGES}::test_D4_two_that_lock_in_opposite_order_are_both_made",
    ),
    (
        "Database D4: it is known by its code",
        "store/outages.py",
        "    if code in _AGAIN:\n        return NotMade(told)\n",
        "",
        f"{OUTAGES}::test_D4_a_statement_that_takes_too_long_is_given_up_and_made_again",
    ),
    (
        "Database D4: no more than five times",
        "store/outages.py",
        "    for number in range(TRIES):\n",
        "    for number in range(50):\n",
        f"{OUTAGES}::test_D4_one_that_gives_way_for_ever_is_unavailable_after_five_tries",
    ),
    (
        "Database D3: what has only been begun is begun again",
        "store/database.py",
        "                opened = begin() if self._gate else trying_again(begin, self.clock.sleep)\n",
        "                opened = begin()\n",
        f"{OUTAGES}::test_D3_a_connection_that_died_while_nobody_used_it_is_not_noticed",
    ),
    (
        "Database D3: an unknown commit is not made again",
        "store/outages.py",
        "        return NotMade(told) if nothing_made and not slow else StoreUnavailable(told)\n",
        "        return NotMade(told)\n",
        f"{OUTAGES}::test_D3_after_an_unknown_commit_nothing_is_assumed_and_the_key_tells",
    ),
    (
        "Database D3: a server that only reads is an outage",
        "store/outages.py",
        "    if isinstance(exc, OperationalError | InterfaceError) or code in _UNAVAILABLE:\n",
        "    if isinstance(exc, OperationalError | InterfaceError):\n",
        f"{OUTAGES}::test_D3_a_server_that_only_reads_is_unavailable_and_no_bug_of_ours",
    ),
    (
        "Database D3: an answer that does not come is given up",
        "store/postgres_engine.py",
        "timeout if timeout is not None else self.answer_timeout)",
        "timeout)",
        f"{OUTAGES}::test_D3_a_server_that_keeps_silent_is_given_up",
    ),
    (
        "Database D3: sessions wait for a bounded time",
        "store/postgres_engine.py",
        '            "options": " ".join(f"-c {option}={value}" for option, value in _OPTIONS.items()),\n',
        "",
        f"{OUTAGES}::test_D3_sessions_say_who_they_are_and_how_long_they_wait",
    ),
    (
        "Database D3: an unanswered lease is looked for",
        "hermes/durable/worker.py",
        "            self._unanswered_until = self._clock.boot_seconds() + settings.lease.total_seconds()\n",
        "",
        f"{ENGINE}::test_D3_a_lease_that_was_made_and_not_answered_is_given_back_uncounted",
    ),
    (
        "Database D3: an engine's failure is no unanswered lease",
        "hermes/durable/worker.py",
        "            self._given_up.add((leased.run.id, leased.lease.fence))\n",
        "",
        f"{ENGINE}::test_D3_a_run_whose_engine_failed_is_not_taken_for_an_unanswered_lease",
    ),
    (
        "Database D1: nothing is sent before its intent is kept",
        "hermes/durable/recorder.py",
        "                return self._database.commit(change)\n            except StoreUnavailable as exc:\n"
        "                self._wait_or_leave(exc)\n",
        "                return self._database.commit(change)\n            except StoreUnavailable:\n"
        "                return None\n",
        f"{ENGINE}::test_D1_while_the_database_is_locked_nothing_is_sent_and_no_attempt_spent",
    ),
    (
        "Database D5: a rescue is made whole or not at all, and again",
        "store/leases.py",
        '    .where(in_state(RunState.running), RUNS.c.lease_until < bindparam("b_now"))\n    .order_by',
        '    .where(in_state(RunState.running), RUNS.c.lease_until > bindparam("b_now"))\n    .order_by',
        f"{ENGINE}::test_D5_a_rescue_that_dies_with_the_server_is_only_the_first_of_many",
    ),
    (
        "Database D2: a failed statement is an outage of the one that made it",
        "store/group_commit.py",
        "            with translated():\n                self.result = self._change(unit)\n",
        "            self.result = self._change(unit)\n",
        f"{OUTAGES}::test_D2_one_whose_statement_fails_takes_nothing_of_those_with_it_that_share_its_transaction",
    ),
    (
        "Database D8: damage stops all writing",
        "store/database.py",
        "        if self._damage is not None:\n            raise StoreDamaged(self._damage)\n",
        "",
        f"{OUTAGES}::test_D8_a_page_that_breaks_while_it_runs_stops_all_writing",
    ),
    (
        "Database D8: damage is told from an outage",
        "store/outages.py",
        "        return StoreDamaged(str(exc.orig))\n",
        "        return StoreUnavailable(told)\n",
        f"{OUTAGES}::test_D8_on_postgresql_a_page_that_breaks_stops_all_writing",
    ),
    (
        "Database D7: a NUL costs no run",
        "store/postgres_engine.py",
        "        connection.adapters.register_dumper(str, _UntypedTextDumper)\n"
        "        connection.adapters.register_dumper(str, _TextDumper)\n",
        "",
        "tests/store/test_runs.py::test_D7_odd_texts_are_kept_and_cost_no_run",
    ),
    (
        "Database D7: a long name of an error costs no run",
        "store/run_values.py",
        "error.kind[:LONGEST_KIND] if",
        "error.kind if",
        "tests/store/test_runs.py::test_D7_odd_texts_are_kept_and_cost_no_run",
    ),
    (
        "Database D9: states are spelt out, so that a partial index serves",
        "store/holding.py",
        "literal_column(f\"'{state.value}'\")",
        "bindparam(None, state.value)",
        "tests/store/test_scan_cost.py::test_D9_looking_for_work_reads_an_index_however_many_runs_are_over",
    ),
    (
        "Database D10: no SQLite on a network file system",
        "store/database.py",
        "            refuse_network_file_system(path.parent)\n",
        "",
        "tests/store/test_filesystem.py::test_D10_a_file_on_a_network_file_system_is_refused_at_the_start",
    ),
    (
        "Database C7: the server's clock decides",
        "store/database.py",
        "        return self._lease_clock.now() if self._lease_clock else now\n",
        "        return (self._lease_clock or self.clock).now()\n",
        f"{MEET}::test_C7_leases_are_decided_by_the_servers_clock_however_wrong_a_workers_is",
    ),
    (
        "Database: who leases waits for nobody",
        "store/leases.py",
        "a run whose row is locked.\n    .with_for_update(skip_locked=True, key_share=True)\n",
        "a run whose row is locked.\n    .with_for_update(key_share=True)\n",
        f"{MEET}::test_whoever_leases_passes_over_what_another_has_under_its_hands",
    ),
    (
        "Database: who takes a place waits for nobody",
        "store/places.py",
        "    .with_for_update(skip_locked=True, key_share=True)\n",
        "",
        f"{MEET}::test_whoever_needs_a_place_passes_over_one_that_is_being_taken",
    ),
    (
        "Database: a heartbeat waits for no row",
        "store/leases.py",
        '            runs = list(execute(_NOT_IN_USE, {"b_runs": runs, "b_owner": owner}).scalars())\n',
        "            pass\n",
        f"{MEET}::test_a_heartbeat_waits_for_no_run_that_another_transaction_has_locked",
    ),
    (
        "Database: a heartbeat waits for nobody's connection",
        "store/database.py",
        '            self._urgent = postgres_engine(self.url, 2, "hermes-poll urgent")\n',
        "            self._urgent = self.engine\n",
        f"{MEET}::test_a_heartbeat_waits_for_nobodys_connection",
    ),
    (
        "Database: a run is locked before its card",
        "hermes/claim/claiming.py",
        "        uow.runs.release_hold(run.id, uow.now)  # the run before its card: see start.py\n",
        "        uow.claims.update(work.hold)\n        uow.runs.release_hold(run.id, uow.now)\n",
        "tests/hermes/claim/test_lock_order.py::test_a_desk_that_waits_for_a_run_does_not_hold_its_card",
    ),
    (
        "Database: who starts together adds a poll once",
        "store/polls.py",
        '        added = [new for new in added if _add_poll(self._connection, {"poll_id": new.poll_id, '
        "**self._fresh(new)})]\n",
        '        for new in added:\n            row = {"poll_id": new.poll_id, **self._fresh(new)}\n'
        "            self._connection.execute(insert(POLLS).values(row))\n",
        f"{MEET}::test_processes_that_start_together_make_each_row_once",
    ),
    (
        "Database: who starts together migrates once",
        "store/database.py",
        '                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATIONS})")\n',
        "",
        "tests/store/test_migrate.py::test_processes_that_start_at_once_migrate_once",
    ),
    (
        "Database: a migration may take its time",
        "store/database.py",
        '                    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")\n',
        "",
        "tests/store/test_migrate.py::test_a_migration_may_take_longer_than_anything_else_may",
    ),
]

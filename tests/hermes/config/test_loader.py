"""What a good folder becomes, and how every mistake in a bad one is said."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes.config import ConfigProblems, Configuration, Report, load


def test_a_whole_poll_becomes_typed_values(folder):
    folder.poll(
        """\
poll: tasks
owner: ada
workspace: lab
source: {type: board, board: team}
schedule:
  cron: "0 9 * * 1-5"
  timezone: Australia/Melbourne
  jitter: 20s
  misfire: {grace: 5m, policy: once}
filter: record.priority in ["High", "Urgent"] && size(record.title) > 0
action: {type: function, function: work, args: {loud: true}}
claim: {lease: 1h30m, max_attempts: 4, max_concurrent: 2, max_open: 9, next: on_tick, on_edit: keep, read_body: true,
  write_result: false, comment_on: [failed, retry]}
priority: 3
stop: {max_consecutive_failures: 7}
enabled: false
"""
    )
    poll = folder.load().polls["tasks"]
    assert (poll.owner, poll.workspace, poll.board, poll.priority, poll.enabled) == ("ada", "lab", "team", 3, False)
    assert str(poll.cadence.zone) == "Australia/Melbourne"
    assert poll.schedule.jitter == timedelta(seconds=20)
    assert poll.claim.lease == timedelta(minutes=90)
    assert poll.stop.max_consecutive_failures == 7
    assert poll.action.args == {"loud": True}
    policy = poll.claim_policy(shared=True)
    assert (policy.at_once, policy.restart_on_edit, policy.read_body, policy.write_result) == (
        False,
        False,
        True,
        False,
    )
    assert policy.comment_on == {"failed", "retry"}
    assert policy.shared


def test_defaults_are_those_of_the_design(folder, poll_text):
    folder.poll(poll_text)
    configuration = folder.load()
    poll = configuration.polls["tasks"]
    assert (poll.owner, poll.workspace, poll.enabled) == ("default", "default", True)
    assert poll.claim.lease == timedelta(minutes=15)
    assert (poll.claim.max_attempts, poll.claim.max_concurrent, poll.claim.max_open) == (3, 1, 20)
    assert poll.stop.max_consecutive_failures == 5
    assert configuration.data == folder.path.parent.resolve() / "data"
    assert configuration.database_url == f"sqlite:///{configuration.data / 'hermes.db'}"
    assert configuration.board_connections == {"team": "main"}
    assert not configuration.timezone_from_host


def test_without_a_timezone_the_hosts_is_used_and_said_to_be(folder, poll_text, monkeypatch):
    monkeypatch.setattr("hermes.config.loader.get_localzone_name", lambda: "America/New_York")
    folder.write("hermes.yaml", "boards: {}\n")
    configuration = folder.load()
    assert configuration.timezone == "America/New_York"
    assert configuration.timezone_from_host
    monkeypatch.setattr("hermes.config.loader.get_localzone_name", lambda: "local")
    assert folder.load().timezone == "UTC", "a host that does not know its place"


def test_all_mistakes_of_all_files_are_said_at_once_with_their_places(folder, poll_text):
    folder.write(
        "hermes.yaml",
        """\
conections: {}
connections:
  main: {type: tracker, token: "${TRACKER_TOKEN}", tokn: x}
  other: {type: trello}
boards:
  team: {connection: mian, board: B1}
workers: {slots: 0}
""",
    )
    folder.poll("poll: tasks\nsource: {type: board, board: team}\nschedule: {evry: 10m}\naction: {type: function}\n")
    folder.poll(poll_text.replace("poll: tasks", "poll: other") + "budget_usd: 5\n", "more")
    assert folder.problems() == [
        "config/hermes.yaml:1:1: unknown key `conections`. Did you mean `connections`? (allowed: data, database, "
        "timezone, functions, workers, connections, boards, channels, api, retention, log)",
        "config/hermes.yaml:3:52: unknown key `tokn`. Did you mean `token`? (allowed: type, token, base_url)",
        "config/hermes.yaml:4:17: unknown connection type `trello`. (allowed: tracker)",
        "config/hermes.yaml:6:22: no such connection `mian`. Did you mean `main`? (allowed: main, other)",
        "config/hermes.yaml:7:18: must be at least 1, got 0",
        "config/polls/more.yaml:1:7: `other` must be the file's name: rename the file or write `poll: more`",
        "config/polls/more.yaml:5:1: unknown key `budget_usd`. (allowed: poll, owner, workspace, source, schedule, "
        "filter, action, claim, priority, stop, enabled)",
        "config/polls/tasks.yaml:3:12: unknown key `evry`. Did you mean `every`? (allowed: every, cron, timezone, "
        "jitter, misfire)",
        "config/polls/tasks.yaml:4:1: key `function` is missing",
    ]


def test_a_board_that_does_not_exist_is_named_with_those_that_do(folder, poll_text):
    folder.poll(poll_text.replace("board: team", "board: tema"))
    assert folder.problem() == (
        "config/polls/tasks.yaml:2:30: no such board `tema` in hermes.yaml. Did you mean `team`? (allowed: team)"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("judge: {condition: x, model: y}", "5:1: judging by a model (`judge`) is not supported in this version"),
        ("budget: {run_usd: 0.5}", "5:1: budgets (`budget`) is not supported in this version"),
        ("stop: {until: 2027-01-01}", "5:8: stopping at a date (`stop.until`) is not supported in this version"),
        (
            "claim: {lease: 15}",
            "5:16: expected a duration such as 20s, 15m, 1h30m or 2d (a number needs its unit), got 15",
        ),
        ("claim: {max_concurrent: 5, max_open: 2}", "5:1: max_open may not be less than max_concurrent"),
        ("enabled: yes", "5:10: expected true or false, got yes"),
        ("priority: '3'", '5:11: expected a whole number, got "3"'),
        ("priority: 3.5", "5:11: expected a whole number, got 3.5"),
        ("claim: {next: later}", "5:15: not one of the known values (allowed: at_once, on_tick), got later"),
        ("claim: [1]", "5:1: expected a section of keys"),
        ("claim:", "5:1: expected a section of keys"),
        ("filter: ''", "5:1: may not be empty"),
        ("owner: Ada Lovelace", "5:8: not a name: lower-case letters, digits, - and _ (at most 64), got Ada Lovelace"),
    ],
)
def test_wrong_values_are_said_in_plain_words(folder, poll_text, line, said):
    folder.poll(poll_text + line + "\n")
    assert folder.problem() == f"config/polls/tasks.yaml:{said}"


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (
            "{every: 12:30}",
            "3:19: expected a duration such as 20s, 15m, 1h30m or 2d (a number needs its unit), got 12:30",
        ),
        ("{every: 0s}", "3:19: must be between 1s and 366d, got 0s"),
        ("{every: 10m, cron: '0 9 * * *'}", "3:1: expected one of `every` and `cron`"),
        ("{cron: '0 9 * *'}", '3:18: expected 5 fields (minute hour day month weekday), got 4, got "0 9 * *"'),
        ("{cron: '61 9 * * *'}", "3:18: not a cron expression: bad minute in '61 9 * * *', got \"61 9 * * *\""),
        ("{cron: '0 0 31 2 *'}", "3:18: not a cron expression: bad day-of-month in '0 0 31 2 *', got \"0 0 31 2 *\""),
        (
            "{every: 1m, timezone: Berlin}",
            "3:33: unknown timezone 'Berlin': expected an IANA name such as Europe/Berlin, got Berlin",
        ),
        (
            "{every: 1m, misfire: {policy: all}}",
            "3:41: running every missed occurrence is not supported in this version (allowed: once, skip)",
        ),
        ("{every: 1m, misfire: {policy: never}}", "3:41: not one of the known values (allowed: once, skip), got never"),
    ],
)
def test_wrong_schedules(folder, poll_text, schedule, said):
    folder.poll(poll_text.replace("{every: 10m}", schedule))
    assert folder.problem() == f"config/polls/tasks.yaml:{said}"


def test_an_action_of_a_later_version_is_named_as_such(folder, poll_text):
    folder.poll(poll_text.replace("type: function, function: work", "type: agent, tools: [web_search]"))
    assert folder.problem() == (
        "config/polls/tasks.yaml:4:16: the agent action is not supported in this version (allowed: function, notify)"
    )


@pytest.mark.parametrize(
    ("filter_line", "place"),
    [
        ('filter: record.titel == "x"', "5:9"),
        ("filter: 'record.titel == \"x\"'", "5:9: `record` has no `titel`"),
        ('filter: true && record.titel == "x"', "5:17"),
        ('filter: |\n  record.title == "x" &&\n    record.titel == "y"', "7:5"),
        ('filter: >\n  true &&\n  record.titel == "y"', "5:9"),
    ],
)
def test_a_filter_mistake_points_at_the_word(folder, poll_text, filter_line, place):
    folder.poll(poll_text + filter_line + "\n")
    said = folder.problem()
    assert said.startswith(f"config/polls/tasks.yaml:{place}")
    assert "Did you mean `title`?" in said


def test_a_poll_file_with_another_ending_is_not_silently_ignored(folder, poll_text):
    folder.poll(poll_text)
    folder.write("polls/late.yml", poll_text)
    folder.write("polls/.#tasks.yaml", "editor's lock")
    folder.write("polls/notes.txt", "not a poll")
    assert folder.problem() == "config/polls/late.yml: rename it to late.yaml: it is not read"


def test_missing_files_are_said(folder, tmp_path):
    (folder.path / "hermes.yaml").unlink()
    assert folder.problem() == "config/hermes.yaml: is missing"
    with pytest.raises(ConfigProblems, match="is not a folder"):
        load(tmp_path / "nowhere", folder.models)


def test_a_check_from_outside_can_name_a_place(folder, poll_text):
    folder.poll(poll_text)

    def functions_exist(configuration: Configuration, report: Report) -> None:
        for poll in configuration.polls.values():
            if poll.action.function not in ("answer",):
                report.poll(poll.id, ("action", "function"), f"no function `{poll.action.function}`")

    folder.models = type(folder.models)(**{**vars(folder.models), "checks": (functions_exist,)})
    assert folder.problem() == "config/polls/tasks.yaml:4:36: no function `work`"


def test_wrong_names_of_boards_point_at_the_name(folder):
    folder.write("hermes.yaml", "boards:\n  My Board: {connection: x}\n")
    assert folder.problems()[0] == (
        "config/hermes.yaml:2:3: `My Board` is not a name: lower-case letters, digits, - and _ (at most 64)"
    )


def test_a_relative_sqlite_database_is_relative_to_the_folder_above(folder):
    folder.write("hermes.yaml", "database: sqlite:///var/h.db\n")
    assert folder.load().database_url == f"sqlite:///{folder.path.parent.resolve() / 'var/h.db'}"
    folder.write("hermes.yaml", "database: sqlite:////var/h.db\n")
    assert folder.load().database_url == "sqlite:////var/h.db"


def test_a_message_quotes_the_file_on_one_line_and_sends_nothing_to_a_terminal(folder, poll_text):
    folder.poll(poll_text + '"\\e[31mred\\n\\u202e": 1\n"' + "x" * 1000 + '": 1\n')
    red, long = folder.problems()
    assert "unknown key `\\x1b[31mred\\n\\u202e`" in red
    assert red.isprintable()
    assert len(long) < 1100


def test_how_long_what_is_kept(folder):
    folder.write("hermes.yaml", "boards: {}\n")
    assert folder.load().retention.keys is None, "for ever, unless somebody says otherwise"
    folder.write("hermes.yaml", "boards: {}\nretention: {runs: 30d, failed: 60d, keys: 400d, at: 02:15}\n")
    kept = folder.load().retention
    assert (kept.runs.days, kept.failed.days, kept.keys.days, kept.at) == (30, 60, 400, "02:15")
    folder.write("hermes.yaml", "boards: {}\nretention: {keys: forever, at: never}\n")
    assert folder.load().retention.keys is None


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("keys: 100d", "must be at least as long as `runs` and `failed`, 180d"),
        ("keys: always", "or forever"),
        ("runs: 10m", "must be between 1h and 3650d"),
        ("at: 25:00", "at"),
        ("days: 3", "unknown key `days`"),
    ],
)
def test_what_would_forget_too_much_or_is_no_time_is_refused(folder, written, why):
    folder.write("hermes.yaml", f"boards: {{}}\nretention: {{{written}}}\n")
    assert why in folder.problem()

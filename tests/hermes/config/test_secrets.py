"""Secrets come by reference only, and are never shown."""

from __future__ import annotations

import pytest

from hermes.config import ConfigProblems

NOT_HERE = "a secret may not stand in the file: write ${NAME} and set NAME, or NAME_FILE to a file that holds it"


def connection(fields: str) -> str:
    return f"connections:\n  main: {{type: tracker, {fields}}}\n"


def token(configuration) -> str:
    return configuration.connections["main"].token.get_secret_value()


def test_a_secret_comes_from_the_environment(folder):
    configuration = folder.load()
    assert token(configuration) == "a-long-tracker-token"
    assert "a-long-tracker-token" in configuration.secrets
    assert "a-long-tracker-token" not in repr(configuration)


def test_a_secret_comes_from_a_file(folder, tmp_path):
    (tmp_path / "secret").write_text("from-a-file\n")
    folder.environ = {"TRACKER_TOKEN_FILE": str(tmp_path / "secret")}
    assert token(folder.load()) == "from-a-file"


def test_a_name_and_its_file_together_are_refused(folder, tmp_path):
    folder.environ["TRACKER_TOKEN_FILE"] = str(tmp_path / "secret")
    assert folder.problem().endswith("both TRACKER_TOKEN and TRACKER_TOKEN_FILE are set: keep one")


def test_a_secret_file_that_cannot_be_read_is_said_without_its_content(folder, tmp_path):
    folder.environ = {"TRACKER_TOKEN_FILE": str(tmp_path / "nowhere")}
    assert "the file named by TRACKER_TOKEN_FILE cannot be read: No such file or directory" in folder.problem()
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    folder.environ = {"TRACKER_TOKEN_FILE": str(tmp_path / "odd")}
    assert folder.problem().endswith("the file named by TRACKER_TOKEN_FILE is not UTF-8 text")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    folder.environ = {"TRACKER_TOKEN_FILE": str(tmp_path / "large")}
    assert "larger than 65,536 bytes" in folder.problem()


@pytest.mark.parametrize("environ", [{}, {"TRACKER_TOKEN": ""}])
def test_a_variable_that_is_not_set_is_one_problem_and_not_two(folder, environ):
    folder.environ = environ
    said = folder.problem()
    assert said.startswith("config/hermes.yaml:3:32: environment variable TRACKER_TOKEN ")
    assert "TRACKER_TOKEN_FILE" in said


@pytest.mark.parametrize(
    "fields",
    [
        "token: hunter2hunter2",
        'token: "hunter2hunter2"',
        'token: "${NOPE:-hunter2hunter2}"',
        "token: ntn_hunter2hunter2",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(folder, fields):
    folder.write("hermes.yaml", connection(fields))
    said = folder.problem()
    assert said.endswith(NOT_HERE)
    assert said.startswith("config/hermes.yaml:2:32: ")
    assert "hunter2" not in said


def test_the_local_boards_token_may_stand_in_the_file(folder):
    folder.write("hermes.yaml", connection("token: local, base_url: http://127.0.0.1:8765"))
    assert token(folder.load()) == "local"
    folder.write("hermes.yaml", connection('token: local, base_url: "${URL:-http://localhost:8765}"'))
    assert token(folder.load()) == "local"
    folder.write("hermes.yaml", connection("token: local, base_url: http://127.0.0.1.evil.example:8765"))
    assert folder.problem().endswith(NOT_HERE)


def test_what_looks_like_a_secret_is_refused_anywhere(folder, poll_text):
    folder.poll(poll_text.replace("function: work", "function: work, args: {note: 'Bearer abcdef123'}"))
    assert folder.problem() == f"config/polls/tasks.yaml:4:55: {NOT_HERE}"


def test_secrets_in_lists_of_an_action_are_found(folder, poll_text):
    notify = "type: notify, title: x, targets: ['slack://a/b/c', '${SLACK}', 'json://localhost/x']"
    folder.environ["SLACK"] = "slack://token-a/token-b"
    folder.poll(poll_text.replace("type: function, function: work", notify))
    assert folder.problem() == f"config/polls/tasks.yaml:4:44: {NOT_HERE}"
    folder.poll(poll_text.replace("type: function, function: work", notify.replace("'slack://a/b/c', ", "")))
    configuration = folder.load()
    assert "slack://token-a/token-b" in configuration.secrets
    assert "token-a" not in repr(configuration.polls)
    assert configuration.polls["tasks"].definition["action"]["targets"][0] == "${SLACK}"


def test_a_database_password_is_refused_and_a_url_without_one_is_not(folder):
    folder.write("hermes.yaml", "database: postgresql+psycopg://hermes:hunter2@db/hermes\n")
    said = folder.problem()
    assert said == f"config/hermes.yaml:1:11: {NOT_HERE}"
    folder.write("hermes.yaml", "database: postgresql+psycopg://hermes@db/hermes\n")
    configuration = folder.load()
    assert configuration.database_url == "postgresql+psycopg://hermes@db/hermes"
    assert configuration.database_url not in configuration.secrets


def test_the_password_of_a_database_is_a_secret_of_its_own(folder):
    folder.environ["DB"] = "postgresql+psycopg://hermes:hunter%2F2@db/hermes"
    folder.write("hermes.yaml", "database: ${DB}\n")
    configuration = folder.load()
    assert {"hunter%2F2", "hunter/2", folder.environ["DB"]} <= configuration.secrets
    assert "hunter" not in repr(configuration)


def test_channels_are_secrets_unless_they_stay_on_this_machine(folder):
    folder.write("hermes.yaml", "channels:\n  ops: slack://a/b/c\n  dev: json://localhost/hook\n")
    assert folder.problem() == f"config/hermes.yaml:2:8: {NOT_HERE}"


def test_what_comes_from_the_environment_is_never_shown_in_an_error(folder, poll_text):
    folder.environ["ODD"] = "sensitive"
    folder.poll(poll_text + 'claim: {next: "${ODD}", lease: "${ODD}"}\npriority: ${ODD}\n')
    with pytest.raises(ConfigProblems) as caught:
        folder.load()
    assert "sensitive" not in str(caught.value)
    assert len(caught.value.problems) == 3


def test_numbers_and_truth_values_may_come_from_the_environment(folder, poll_text):
    folder.environ |= {"N": "4", "ON": "false", "WAIT": "2h"}
    folder.poll(poll_text + 'claim: {max_attempts: "${N}", lease: "${WAIT}"}\nenabled: ${ON}\n')
    poll = folder.load().polls["tasks"]
    assert (poll.claim.max_attempts, poll.enabled) == (4, False)
    folder.poll(poll_text + 'claim: {max_attempts: "${N}0"}\n')
    assert folder.problem().endswith("expected a whole number")


def test_interpolation_cannot_change_the_structure_and_is_not_repeated(folder, poll_text):
    folder.environ["F"] = "work}\nenabled: false\n# ${TRACKER_TOKEN}"
    folder.poll(poll_text.replace("function: work", "function: '${F}', args: {a: '$${F}', b: 'x${N:-}y'}"))
    poll = folder.load().polls["tasks"]
    assert poll.enabled
    assert poll.action.function == folder.environ["F"]
    assert poll.action.args == {"a": "${F}", "b": "xy"}


@pytest.mark.parametrize("text", ["${", "${}", "${A B}", "${1A}", "${A:-x"])
def test_a_broken_reference_is_said(folder, poll_text, text):
    folder.poll(poll_text.replace("function: work", f"function: '{text}'"))
    assert "expected ${NAME} or ${NAME:-default}" in folder.problem()

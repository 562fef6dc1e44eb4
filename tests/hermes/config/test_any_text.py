"""Whatever stands in the files, the answer is a configuration or problems with places: never another exception."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.config import ConfigProblems, Reading, read
from hermes.config.duration import parse_duration, show_duration
from hermes.config.yaml_file import parse_yaml, plain_value

BITS = [*"ab -?:[]{},#\t~é0@`'\"\n\u2028", "  ", ": ", "- ", "&x ", "*x", "!!str ", "|\n", ">-\n", "---\n", "...\n"]
BITS += ["%YAML 1.2\n", "<<: ", "${A}", "${", "\\x", "\r\n", "null", "b: "]
SOUP = st.lists(st.sampled_from(BITS), max_size=30).map("".join)


def check(reading: Reading) -> None:
    for problem in reading.problems:
        assert problem.file
        assert problem.what
        assert (problem.line >= 1 and problem.column >= 1) or (problem.line, problem.column) == (0, 0)
        assert "\n" not in str(problem)
    assert reading.problems or reading.configuration is not None


def parse(raw: bytes) -> None:
    with suppress(ConfigProblems):
        tree, _ = parse_yaml(raw, "f.yaml")
        assert tree.line >= 1


@given(st.one_of(SOUP, st.text(max_size=80)))
@settings(max_examples=500, deadline=None)
def test_any_text_parses_or_is_a_problem(text):
    parse(text.encode("utf-8", "surrogatepass"))


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_parse_or_are_a_problem(raw):
    parse(raw)


VALUES = st.recursive(
    st.sampled_from(
        ["", "~", "x", "1", "-1", "1.5", "true", "NO", "10m", "12:30", "'q'", "${A}", "'${NOPE}'", "board", "[]", "{}"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["type", "board", "every", "a"]), inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
        ),
    ),
    max_leaves=6,
)
POLL_KEYS = [
    "poll",
    "owner",
    "source",
    "schedule",
    "filter",
    "action",
    "claim",
    "priority",
    "stop",
    "enabled",
    "judge",
    "budget",
    "x",
]
HERMES_KEYS = [
    *("data", "database", "timezone", "functions", "workers"),
    *("connections", "boards", "channels", "retention", "log", "x"),
]


def file_of(keys: list[str]) -> st.SearchStrategy[str]:
    lines = st.tuples(st.sampled_from(keys), VALUES).map(lambda pair: f"{pair[0]}: {pair[1]}")
    return st.lists(lines, max_size=8).map("\n".join)


@given(hermes=file_of(HERMES_KEYS), poll=file_of(POLL_KEYS))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_values_under_any_keys_are_read_or_said(folder, hermes, poll):
    folder.write("hermes.yaml", hermes)
    folder.poll(poll)
    check(read(folder.path, folder.models, environ={"A": "value"}))


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_good_file_with_one_slip_is_read_or_said(folder, poll_text, data):
    good = poll_text + "claim: {lease: 15m, max_attempts: 3}\nfilter: |\n  record.title != ''\nowner: ada\n"
    at = data.draw(st.integers(0, len(good) - 1))
    length = data.draw(st.integers(0, 5))
    folder.poll(good[:at] + data.draw(SOUP) + good[at + length :])
    check(read(folder.path, folder.models, environ={**folder.environ, "A": "value"}))


@given(st.timedeltas().filter(lambda span: span.total_seconds() >= 0 and span.days < 900_000))
def test_durations_are_read_back_as_they_are_shown(span):
    whole = span - span % type(span)(seconds=1)
    assert parse_duration(show_duration(whole)) == whole


@given(st.text(max_size=30))
def test_a_plain_scalar_is_a_value_or_a_value_error(text):
    try:
        value = plain_value(text)
    except ValueError:
        return
    assert value is None or isinstance(value, (bool, int, float, str))

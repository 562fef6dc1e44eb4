"""CEL filters: what they see, how mistakes are said, and that nobody's text or pattern makes them slow."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.filter import FIELDS, CelCompiler
from hermes.errors import ConfigError
from hermes.model.card import Card, CardStatus
from hermes.ports.filter import FilterError

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
POLL = {"id": "tasks", "owner": "ada", "workspace": "lab"}


def card(**changes) -> Card:
    values = {
        "id": "p1",
        "url": "https://notion.so/p1",
        "title": "Buy milk",
        "status": CardStatus.todo,
        "status_name": "Todo",
        "priority": "High",
        "priority_rank": 0.0,
        "description": "two litres",
        "created_at": NOW - timedelta(days=2),
        "edited_at": NOW - timedelta(hours=1),
        "edited_by": None,
        "claimed_by": None,
        "claimed_at": None,
        "claim_expires_at": None,
        "run_id": None,
        "completed_at": None,
        "retry_count": 0,
        "last_error": None,
        "in_trash": False,
        "properties": {"Effort": 3, "Due date": "2026-01-06", "Tags": ["home", "shop"], "Owner": None, "Done": False},
    }
    return Card(**{**values, **changes})


def matches(text: str, columns=None, **changes) -> bool:
    return CelCompiler().compile(text, columns).matches(card(**changes), POLL, NOW)


def answer(text: str) -> bool | ConfigError | FilterError:
    """Whatever else is raised is a bug."""
    try:
        return matches(text)
    except (ConfigError, FilterError) as error:
        return error


def refused(text: str, columns=None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        CelCompiler().compile(text, columns)
    return caught.value


def undecided(text: str, columns=None, **changes) -> str:
    with pytest.raises(FilterError) as caught:
        matches(text, columns, **changes)
    assert caught.value.record_id == "p1"
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('record.priority in ["High", "Urgent"] && size(record.title) > 0', True),
        ('record.priority == "Low"', False),
        ('record.status == "todo"', True),
        ('record.status_name == "Todo"', True),
        ("record.retry_count < 3", True),
        ("record.priority_rank < 1.0", True),
        ("record.edited_at < now", True),
        ('now - record.created_at > duration("24h")', True),
        ('record.created_at.getDayOfWeek("Europe/Berlin") == 6', True),
        ('record.title.lowerAscii().contains("milk")', True),
        ('record.title.startsWith("Buy")', True),
        ('record.title.matches("^[A-Z]")', True),
        ('record.properties["Due date"] < "2026-02"', True),
        ('timestamp(record.properties["Due date"] + "T00:00:00Z") - now < duration("48h")', True),
        ('date(record.properties["Due date"]) - now < duration("48h")', True),
        ('date("2026-01-05T10:00:00.000+01:00") == now', True),
        ("record.properties.Effort > 2", True),
        ("record.properties.Effort > 2.5", True),
        ('"shop" in record.properties.Tags', True),
        ('record.properties.Tags.exists(tag, tag.startsWith("h"))', True),
        ("record.properties.Owner == null", True),
        ('has(record.properties.Nope) && record.properties.Nope == "x"', False),
        ('!("Nope" in record.properties)', True),
        ("record.edited_by == null", True),
        ('record.title != "has(record.title)" // and has(record.title)', True),
        ("record.title != '.matches(\"(\")'", True),
        ("record.last_error == null", True),
        ('poll.id == "tasks" && poll.owner == "ada"', True),
        ("!record.properties.Done", True),
        ('record.url.endsWith("p1") && record.id == "p1"', True),
    ],
)
def test_what_a_filter_can_say(text, expected):
    assert matches(text) is expected


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('record.titel == "x"', "1:1", "`record` has no `titel`. Did you mean `title`?"),
        ('true && record.titel == "x"', "1:9", "`record` has no `titel`"),
        ('true &&\n  record.titel == "x"', "2:3", "`record` has no `titel`"),
        ("record.claimed_by == null", "1:1", "`record` has no `claimed_by`"),
        ("record == 1", "1:1", 'write `record.title`, or `record.properties["Name"]`'),
        ('record["title"] == "x"', "1:1", "write `record.title`"),
        ("poll.name == 'x'", "1:1", "`poll` has no `name` (known: id, owner, workspace)"),
        ("priority == 'x'", "1:1", "`priority` is not known (known: record, poll, now; quote texts)"),
        ("record.priority == High", "1:20", "`High` is not known"),
        ("record.title > 3", "1:14", "`>` cannot be used on (string, int)"),
        ("record.title == 3", "1:14", "`==` cannot be used on (string, int)"),
        ("record.retry_count < 2.5", "1:20", "`<` cannot be used on (int, double)"),
        ("record.edited_at > '2026'", "1:18", "`>` cannot be used on (Timestamp, string)"),
        ("record.title &&", "1:16", "not a CEL expression: mismatched input the end"),
        ("record.title == 'x", "1:17", "not a CEL expression"),
        ("record.title = 'x'", "1:14", "not a CEL expression"),
        ("record.priority is null", "1:17", "not a CEL expression"),
        ("", "1:1", "not a CEL expression"),
        ("record.title", "1:1", "the expression gives string, not true or false"),
        ("size(record.title)", "1:1", "the expression gives int, not true or false"),
        ("now", "1:1", "not true or false"),
        ("has(record.priority)", "1:1", "every card has `record.priority`: write `record.priority != null`"),
        ("true && has( record.titel )", "1:9", "every card has `record.titel`"),
        ('record.title.matches("(")', "1:23", "not a regular expression that RE2 knows: invalid regular expression"),
        ('record.title.matches("(?=a)b")', "1:23", "not a regular expression that RE2 knows"),
        ("record.title.nope()", "1:18", "`nope` is not known"),
        ("exec('rm')", "1:5", "`exec` is not known"),
    ],
)
def test_mistakes_are_found_when_the_file_is_read(text, where, message):
    error = refused(text)
    assert message in error.message
    assert error.where == where


def test_columns_are_checked_when_the_schema_is_known():
    columns = ["Effort", "Due date", "Tags", "Owner", "Done"]
    assert matches('record.properties["Due date"] < "2026-02" && record.Effort == 3', columns)
    error = refused('true && record.properties["Due dtae"] != null', columns)
    assert error.where == "1:9"
    assert error.message == (
        "the board has no column `Due dtae`. Did you mean `Due date`? (columns: Done, Due date, Effort, Owner, Tags)"
    )
    assert "the board has no column `Efort`" in refused("record.properties.Efort == 3", columns).message
    assert "Did you mean `Effort`?" in refused("record.Efort == 3", columns).message
    assert "has no `Effort`" in refused("record.Effort == 3").message, "without a schema only the fields of every card"


def test_a_column_named_like_a_field_does_not_hide_it():
    assert matches('record.title == "Buy milk"', ["title"], properties={"title": "other"})


def test_a_column_that_the_card_lacks_is_null_when_the_schema_has_it():
    assert matches("record.Effort == null", ["Effort"], properties={})


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("record.priority > 3", {"priority": None}, "a value is empty (_>_(null_type, int64)): test `!= null` first"),
        ("record.priority > 3", {}, "`>` cannot be used on (string, int64)"),
        ("record.properties.Owner > 1", {}, "a value is empty"),
        ("size(record.properties.Owner) > 1", {}, "a value is empty"),
        ("record.properties.Nope == 1", {}, 'the card has no column "Nope": test `"Nope" in record.properties` first'),
        ("1 / record.retry_count == 1", {}, "divide by zero"),
        ("record.priority", {}, "the filter gives string, not true or false"),
        ("record.priority", {"priority": None}, "the filter gives null, not true or false"),
        ('timestamp(record.properties["Due date"]) < now', {}, "String to Timestamp conversion failed"),
        ("date(record.title) < now", {}, "not a date: 'Buy milk'"),
        ("date(record.properties.Owner) < now", {}, "a value is empty"),
        ("record.title.matches(record.description)", {"description": "("}, "invalid regular expression"),
    ],
)
def test_a_card_without_an_answer_is_said_and_does_not_match(text, changes, message):
    assert message in undecided(text, **changes)


def test_null_is_safe_where_the_expression_asks_first():
    assert matches("record.priority != null && record.priority > 3", priority=None) is False
    assert matches("record.priority == null || record.priority > 3", priority=None) is True
    assert matches("record.priority == null", priority=None) is True
    assert matches('record.priority in ["High"]', priority=None) is False


@pytest.mark.parametrize(
    "title",
    ["", "\x00", "a\x00b", "\ud800", "🎉" * 100, "'; DROP", '" || true || "', "{{7*7}}", "x" * 200_000, "\u202e"],
)
def test_odd_titles_are_only_text(title):
    assert matches("size(record.title) >= 0", title=title)
    assert matches('record.title == "never this"', title=title) is False


@pytest.mark.parametrize(
    "value", [2**70, -(2**70), 10**300, float("inf"), float("nan"), {"a": {"b": [1, None]}}, [[[]]]]
)
def test_odd_columns_are_only_values(value):
    assert matches("record.properties.Odd != 'x' && record.title != ''", properties={"Odd": value})


def test_instants_in_other_zones_and_at_the_end_of_time_do_not_break():
    assert matches("record.edited_at < now", edited_at=NOW.astimezone() - timedelta(minutes=1))
    assert matches("record.created_at < now", created_at=datetime(1, 1, 2, tzinfo=UTC))
    assert matches("record.created_at > now", created_at=datetime(9999, 12, 30, tzinfo=UTC))


# time (THREATS.md T17)

CATASTROPHIC = [
    "(a+)+$",
    "(.*a){25}",
    "(a|aa)+$",
    "([a-zA-Z]+)*$",
    "(a|a?)+$",
    "(.*)*$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_patterns_that_blow_up_elsewhere_are_linear(pattern):
    expression = CelCompiler().compile(f'record.title.matches("{pattern}")')
    subject = card(title="a" * 100_000 + "!")
    started = time.process_time()
    expression.matches(subject, POLL, NOW)
    assert time.process_time() - started < 0.5


def test_a_pattern_from_a_card_is_linear_too():
    started = time.process_time()
    matches("record.title.matches(record.description)", title="a" * 100_000 + "!", description="(a+)+$")
    assert time.process_time() - started < 0.5


def test_loops_in_loops_are_refused_or_cut_off():
    numbers = "[" + ",".join(map(str, range(100))) + "]"
    text = "true"
    for name in "wxyz":
        text = f"{numbers}.all({name}, {text})"
    started = time.process_time()
    with pytest.raises((ConfigError, FilterError)):
        matches(text)
    over_cards = "record.properties.L.all(a, record.properties.L.all(b, record.properties.L.all(c, true)))"
    assert "budget" in undecided(over_cards, properties={"L": list(range(2000))}).lower()
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "true" + ")" * 5000,
        "!" * 5000 + "true",
        "-" * 9999 + "1 == 1",
        "[" * 3000,
        "true" + " || true" * 1200,
    ],
)
def test_deep_or_long_expressions_end_in_an_answer_or_a_config_error(text):
    started = time.process_time()
    assert answer(text) in (True, False) or len(str(answer(text))) < 1000
    assert time.process_time() - started < 2


def test_an_expression_that_is_too_long_is_refused():
    assert "longer than 10,000" in refused("true || " * 2000 + "true").message


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_compiles_or_is_a_config_error(text):
    assert str(answer(text))


WORDS = [
    "record.title",
    "record.priority",
    "record.properties",
    "now",
    "null",
    "'x'",
    "1",
    "==",
    ">",
    "&&",
    "(",
    ")",
    "in",
    "[",
    "]",
    "!",
    ".",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@settings(max_examples=300, deadline=None)
def test_anything_made_of_real_words_answers_or_says_why(text):
    assert str(answer(text))


def test_every_field_is_given_a_value():
    for name in FIELDS:
        assert matches(f"dyn(record.{name}) == dyn(record.{name})")


def test_it_is_quick_enough_for_every_card_of_every_poll():
    expression = CelCompiler().compile('record.priority in ["High", "Urgent"] && size(record.title) > 0')
    subject = card()
    started = time.process_time()
    for _ in range(1000):
        expression.matches(subject, POLL, NOW)
    assert time.process_time() - started < 2

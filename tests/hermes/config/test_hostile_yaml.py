"""Files nobody should be able to hurt us with (THREATS.md T13) and files people write by accident."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from hermes.config import ConfigProblems
from hermes.config.yaml_file import MAX_NODES, Mapping, Scalar, Sequence, parse_yaml, plain_value


def values(text: str | bytes) -> object:
    tree, problems = parse_yaml(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    assert not problems

    def plain(node: object) -> object:
        if isinstance(node, Mapping):
            return {key: plain(inner) for key, inner in node.items.items()}
        if isinstance(node, Sequence):
            return [plain(item) for item in node.items]
        assert isinstance(node, Scalar)
        return plain_value(node.text) if node.plain else node.text

    return plain(tree)


def said(text: str | bytes) -> str:
    with pytest.raises(ConfigProblems) as caught:
        parse_yaml(text if isinstance(text, bytes) else text.encode(), "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("country: NO", "NO"),
        ("country: no", "no"),
        ("country: on", "on"),
        ("country: Off", "Off"),
        ("country: y", "y"),
        ("country: 12:30", "12:30"),
        ("country: 12:30:45", "12:30:45"),
        ("country: 2027-01-01", "2027-01-01"),
        ("country: 0o17", 15),
        ("country: 017", 17),
        ("country: 0x1F", 31),
        ("country: 1_000", "1_000"),
        ("country: 1e3", 1000.0),
        ("country: 1.", 1.0),
        ("country: .5", 0.5),
        ("country: +1", 1),
        ("country: 0b11", "0b11"),
        ("country: ~", None),
        ("country:", None),
        ("country: ''", ""),
        ("country: 'true'", "true"),
        ("country: TRUE", True),
        ("country: tRUE", "tRUE"),
        ("country: =", "="),
        ("country: 'it''s'", "it's"),
        ('country: "\\u00e9\\n"', "é\n"),
        ("country: |\n  a\n  b\n", "a\nb\n"),
        ("country: >-\n  a\n  b\n", "a b"),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text, value):
    assert values(text) == {"country": value}


def test_keys_are_always_text():
    assert values("no: 1\ntrue: 2\n1: 3\nnull: 4\n12:30: 5\n") == {"no": 1, "true": 2, "1": 3, "null": 4, "12:30": 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: !!python/object/apply:os.system [id]",
            "f.yaml:1:4: tag `tag:yaml.org,2002:python/object/apply:os.system` is",
        ),
        ("a: !mine x", "f.yaml:1:4: tag `!mine` is not allowed"),
        ("a: !!str x", "f.yaml:1:4: tag"),
        ("a: !!binary aGk=", "f.yaml:1:4: tag"),
        ("!!set {a, b}", "f.yaml:1:1: tag"),
        ("a: &x {k: 1}\nb: {<<: *x}", "f.yaml:2:5: merge keys (`<<`) are not supported: write the keys out"),
        ("a: &a [*a]", "f.yaml:1:8: alias `*a` has no anchor before it, or stands inside it"),
        ("a: *b", "f.yaml:1:4: alias `*b` has no anchor"),
        ("a: &k x\n*k : 1", "f.yaml:2:1: an alias may not be a key"),
        ("? {a: b}\n: 1", "f.yaml:1:3: a key must be text"),
        ("? [a]\n: 1", "f.yaml:1:3: a key must be text"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: holds a second document (`---`): one file, one document"),
        ("%YAML 1.1\n---\na: no", "f.yaml:2:1: asks for another YAML version: 1.2 is used"),
        ("", "f.yaml:1:1: is empty"),
        ("# only a comment\n", "f.yaml:1:1: is empty"),
        ("a:\n\tb: 1", "f.yaml:2:1: is not valid YAML: a tab may not indent a line: use spaces"),
        ("a: \x00", "f.yaml:1:4: is not valid YAML: character U+0000 is not allowed"),
        ("a: b\nc: \x1b[31m", "f.yaml:2:4: is not valid YAML: character U+001B is not allowed"),
        ("a: b: c", "f.yaml:1:5: is not valid YAML: a `: ` stands where no key may be (quote the text?)"),
        ("a: 'x\nb: 1", "f.yaml:2:5: is not valid YAML"),
        ("a: {b: 1", "is not valid YAML"),
        ("a: @x", "f.yaml:1:4: is not valid YAML"),
        ("a: {b: ${X}, c: 1}", 'f.yaml:1:8: is not valid YAML: inside {...} a reference must be quoted: "${NAME}"'),
        (b"a: \xff", "f.yaml:1:4: is not UTF-8 text"),
        ("a: x".encode("utf-16"), "is not UTF-8 text"),
    ],
)
def test_what_is_refused_says_where_and_why(text, message):
    assert message in said(text)


def test_every_duplicate_key_is_reported_and_the_first_value_read_on(folder, poll_text):
    folder.poll(poll_text + "owner: ada\nowner: bob\nclaim: {next: on_tick, next: at_once}\nowner: eve\n")
    assert folder.problems() == [
        "config/polls/tasks.yaml:6:1: duplicate key `owner` (first at line 5)",
        "config/polls/tasks.yaml:7:24: duplicate key `next` (first at line 7)",
        "config/polls/tasks.yaml:8:1: duplicate key `owner` (first at line 5)",
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_read():
    assert values("\ufeffa: 1\r\nb: |\r\n  x\r\n".encode()) == {"a": 1, "b": "x\n"}


@pytest.mark.parametrize("number", [".nan", ".inf", "-.INF", "1e999", "9" * 19, "9" * 5000])
def test_numbers_that_nobody_means_are_problems_of_their_place(folder, poll_text, number):
    folder.poll(poll_text.replace("function: work", f"function: work, args: {{n: {number}}}"))
    said = folder.problem()
    assert said.startswith("config/polls/tasks.yaml:4:52: ")
    assert "number" in said


def test_aliases_are_read_and_counted():
    assert values("a: &x [1]\nb: *x\n") == {"a": [1], "b": [1]}
    many = "a: &x 1\n" + "".join(f"b{n}: *x\n" for n in range(200))
    assert said(many) == "f.yaml:102:7: uses more than 100 aliases"


def test_laughs_by_the_billion_stop_at_a_count():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert f"holds more than {MAX_NODES:,} values (aliases followed)" in said("\n".join(lines))


HUGE = {
    "100,000 opening brackets": "[" * 100_000,
    "100,000 opening braces with spaces": "{ " * 100_000,
    "100,000 nested keys": "{a: " * 100_000,
    "100,000 nested dashes": "- " * 100_000,
    "nested by indentation": "".join(" " * n + "a:\n" for n in range(1_000)),
    "nested explicit keys": "? " * 100_000,
    "a million bytes of keys": "".join(f"k{n}: v\n" for n in range(90_000)),
    "a list of a million bytes": "a: [" + "x," * 500_000 + "]",
    "fifty megabytes": "a" * 50_000_000,
    "anchors without end": "".join(f"- &a{n} x\n" for n in range(60_000)),
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_files_end_soon_in_a_problem(name):
    raw = HUGE[name].encode()
    started = time.perf_counter()
    message = said(raw)
    assert message.startswith("f.yaml")
    assert time.perf_counter() - started < 15  # two seconds at most here; room for slow machines


def test_a_hostile_file_takes_little_memory(monkeypatch):
    monkeypatch.setattr("hermes.config.yaml_file.MAX_NODES", MAX_NODES // 10)  # tracing makes it ten times as slow
    raw = ("a: [" + "x," * 500_000 + "]").encode()
    tracemalloc.start()
    said(raw)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15_000_000


def test_a_large_scalar_is_no_problem():
    assert values("a: '" + "x" * 500_000 + "'") == {"a": "x" * 500_000}


def test_a_file_larger_than_a_mebibyte_is_not_read_whole(folder):
    folder.write("hermes.yaml", b"#" * (1 << 20) + b"\na: 1\n")
    assert folder.problems() == ["config/hermes.yaml: is larger than 1,048,576 bytes"]


def test_a_list_where_keys_belong(folder):
    folder.write("hermes.yaml", "- a\n- b\n")
    assert folder.problems() == ["config/hermes.yaml:1:1: expected a section of keys (`key: value`)"]

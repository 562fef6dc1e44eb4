from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermes.cli.output import as_json, cut, instant, near, safe, safe_lines

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def test_escapes_go_whole_and_words_stay() -> None:
    assert safe("a\x1b[31mred\x1b[0m b") == "ared b"
    assert safe("x\x1b]8;;http://evil\x07link\x1b]8;;\x1b\\y") == "xlinky"
    assert safe("\x9b31mred") == "31mred"
    assert safe("abc\u202edef\u2066g\U000e0041h") == "abcdefgh"
    assert safe("one\r\ntwo\tthree") == "one two three"
    assert safe("👩\u200d🚀 naïve 日本語") == "👩\u200d🚀 naïve 日本語"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text) -> None:
    for letter in safe(text) + safe_lines(text).replace("\n", ""):
        assert letter in "\u200c\u200d" or unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_cut_keeps_its_length() -> None:
    assert cut("12345", 5) == "12345"
    assert cut("123456", 5) == "1234…"


def test_times() -> None:
    assert near(NOW + timedelta(seconds=12), NOW) == "in 12 s"
    assert near(NOW - timedelta(minutes=3), NOW) == "3 m ago"
    assert near(NOW - timedelta(days=3), NOW) == "3 d ago"
    assert near(NOW, NOW) == "now"
    assert near(None, NOW) == ""
    assert instant(NOW) == "2026-01-05T09:00:00Z"
    assert as_json({"at": NOW, "for": timedelta(seconds=3)}) == {"at": "2026-01-05T09:00:00.000Z", "for": 3.0}

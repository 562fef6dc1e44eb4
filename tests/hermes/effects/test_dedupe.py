from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.effects import dedupe_key
from hermes.model.key import MAX_KEY

PARTS = ("user", "poll", "object_id", "cause", "action", "place", "target", "condition_version")
words = st.text(alphabet=st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=120).filter(
    lambda text: bool(text.strip())
)
lists = st.fixed_dictionaries(dict.fromkeys(PARTS, words))


def test_it_can_be_read() -> None:
    key = dedupe_key(
        user="default",
        poll="notion-tasks",
        object_id="2f1c",
        cause="generation:3",
        action="shell",
        place="notify/0",
        target="ann@example.com",
        condition_version="",
    )
    assert key == "effect|default|notion-tasks|2f1c|generation:3|shell|notify/0|ann@example.com|"


@given(lists, lists)
def test_two_lists_of_parts_never_make_one_key(one: dict[str, str], other: dict[str, str]) -> None:
    import unicodedata

    same = all(unicodedata.normalize("NFC", one[name]) == unicodedata.normalize("NFC", other[name]) for name in PARTS)
    assert (dedupe_key(**one) == dedupe_key(**other)) == same


@given(lists, st.integers(0, 6))
def test_moving_text_between_parts_makes_another_key(parts: dict[str, str], at: int) -> None:
    left, right = PARTS[at], PARTS[at + 1]
    moved = parts | {left: f"{parts[left]}|{parts[right]}", right: "x"}
    assert dedupe_key(**moved) != dedupe_key(**(parts | {right: f"{parts[right]}|x"}))


@given(st.dictionaries(st.sampled_from(PARTS), st.text(min_size=400, max_size=900), min_size=1))
def test_long_keys_are_cut_and_stay_apart(long: dict[str, str]) -> None:
    parts = dict.fromkeys(PARTS, "x") | {name: f"{value}." for name, value in long.items()}
    try:
        key = dedupe_key(**parts)
    except ValueError:
        return  # lone surrogates cannot be kept
    assert len(key) <= MAX_KEY
    last = next(reversed(long))
    assert dedupe_key(**(parts | {last: f"{parts[last]}!"})) != key


@pytest.mark.parametrize("missing", PARTS[:6])
@pytest.mark.parametrize("value", ["", "  ", "\t"])
def test_what_must_be_there_must_be_there(missing: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"needs {missing}"):
        dedupe_key(**(dict.fromkeys(PARTS, "x") | {missing: value}))

"""Text by UTF-16 units: whatever people write fits, whole where it can be, and can be sent."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sources.notion.sections import (
    BLOCKS_A_CALL,
    SECTION_BLOCKS,
    calls,
    label,
    landed,
    section,
)
from sources.notion.text import SEGMENT_UNITS, clean, cut, pieces, plain_text, rich_text, units

ANY_TEXT = st.text(alphabet=st.characters(blacklist_categories=()), max_size=300)
LONG_TEXT = st.builds(lambda part, times: part * times, ANY_TEXT, st.integers(1, 200))
MARKDOWN = st.lists(
    st.sampled_from(
        ["# head", "text", "- a", "* b", "3. c", "> q", "```", "~~~", "---", "", "   ", "😀" * 30, "\tx", "####"]
    )
).map("\n".join)


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(ANY_TEXT)
def test_units_are_those_of_utf16(text: str) -> None:
    assert units(clean(text)) == utf16(clean(text))


@given(LONG_TEXT)
def test_pieces_join_to_the_whole_and_none_is_empty_or_too_long(text: str) -> None:
    text = clean(text)
    parts = list(pieces(text))
    assert "".join(parts) == text
    assert all(0 < utf16(part) <= SEGMENT_UNITS for part in parts)


@given(LONG_TEXT, st.integers(5, 3000))
def test_cut_fits_and_says_so(text: str, limit: int) -> None:
    text = clean(text)
    short = cut(text, limit)
    assert utf16(short) <= limit
    assert short == text or short.endswith("…")


@given(ANY_TEXT)
def test_what_is_sent_can_be_encoded_and_reads_back(text: str) -> None:
    sent = rich_text(text)
    assert json.loads(json.dumps(sent, ensure_ascii=False).encode()) == sent
    assert plain_text(sent) == clean(text)


def test_emoji_on_the_border_is_not_split() -> None:
    assert list(pieces("x" * 1999 + "😀")) == ["x" * 1999, "😀"]
    assert cut("x" * 1999 + "😀", 2000) == "x" * 1999 + "…"
    assert cut("x" * 1998 + "😀", 2000) == "x" * 1998 + "😀"


@given(st.one_of(MARKDOWN, LONG_TEXT))
def test_section_keeps_every_limit(markdown: str) -> None:
    blocks = section("m", markdown)
    assert len(blocks) <= SECTION_BLOCKS
    assert label("m") in plain_text(blocks[0]["heading_2"]["rich_text"])
    for block in blocks:
        segments = block[block["type"]].get("rich_text", [])
        assert len(segments) <= 100
        assert all(0 < utf16(segment["text"]["content"]) <= SEGMENT_UNITS for segment in segments)
    for portion in calls(blocks):
        assert 0 < len(portion) <= BLOCKS_A_CALL
        assert len(json.dumps(portion, ensure_ascii=False).encode()) < 500_000


@given(st.lists(st.sampled_from(["- ok", "- no", "text\n"]), max_size=350).map("\n".join), st.integers(0, 4))
def test_what_has_landed_is_counted_even_where_lines_repeat(markdown: str, count: int) -> None:
    portions = list(calls(section("m", markdown)))
    count = min(count, len(portions))
    page = [{"id": f"{number}", **block} for number, block in enumerate(b for p in portions[:count] for b in p)]
    found, last = landed(portions, page)
    assert found == count
    assert last == (page[-1]["id"] if page else None)


def child(number: int, block: dict[str, object]) -> dict[str, object]:
    return {"id": f"b{number}", **block}


def test_blocks_that_people_changed_or_put_between_do_not_hide_what_landed() -> None:
    portions = list(calls(section("m", "\n".join(f"- item {number}" for number in range(150)))))
    there = [dict(block) for block in portions[0]]
    there[50] = {"type": "paragraph", "paragraph": {"rich_text": rich_text("changed by a person")}}
    there.insert(10, {"type": "paragraph", "paragraph": {"rich_text": rich_text("put between")}})
    before = section("other", "an older result")
    after = section("next", "- item 149")
    page = [child(number, block) for number, block in enumerate([*before, *there, *after])]
    assert landed(portions, page) == (1, f"b{len(before) + len(there) - 1}")


def test_markdown_becomes_the_blocks_it_means() -> None:
    text = "# One\nline a\nline b\n\n- x\n* y\n1. z\n> q\n---\n```python\na = 1\n\n# no heading\n```\ntail"
    kinds = [(block["type"], plain_text(block[block["type"]].get("rich_text"))) for block in section("m", text)[1:]]
    assert kinds == [
        ("heading_3", "One"),
        ("paragraph", "line a\nline b"),
        ("bulleted_list_item", "x"),
        ("bulleted_list_item", "y"),
        ("numbered_list_item", "z"),
        ("quote", "q"),
        ("divider", ""),
        ("code", "a = 1\n\n# no heading"),
        ("paragraph", "tail"),
    ]

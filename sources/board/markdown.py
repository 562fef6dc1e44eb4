"""Markdown to blocks and back: the part of Notion's flavour that plain pages use.

Every line is a block, blank lines only separate, and a block's children stand one tab below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sources.board.call import Json
from sources.board.checks import utf16_units
from sources.board.richtext import TEXT_UNITS, Segment

_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<text>.*)")
_HEADING = re.compile(r"(#{1,4})\s+(.*)")
_TO_DO = re.compile(r"[-*+]\s+\[([ xX])\]\s?(.*)")
_BULLET = re.compile(r"[-*+]\s+(.*)")
_NUMBER = re.compile(r"\d+[.)]\s+(.*)")
_QUOTE = re.compile(r">\s?(.*)")
_FENCE = re.compile(r"(```+|~~~+)\s*(\S*)\s*$")
_DIVIDER = re.compile(r"(-{3,}|\*{3,}|_{3,})$")
_INLINE = re.compile(
    r"(?P<code>`+)(?P<code_text>.+?)(?P=code)"
    r"|\[(?P<label>[^\]]*)\]\((?P<url>[^)\s]+)\)"
    r"|\*\*(?P<bold>.+?)\*\*"
    r"|~~(?P<strike>.+?)~~"
    r"|(?<![\w*])[*_](?P<italic>[^*_\s](?:[^*_]*[^*_\s])?)[*_](?![\w*])"
    r"|\\(?P<escaped>[\\`*_~\[\]#>+\-!|<$])"
)
_ESCAPED = re.compile(r"([\\`*~\[\]<$])")


def from_markdown(text: str) -> list[Json]:
    """Blocks as a request would hold them, nested by indentation."""
    lines = text.replace("\r\n", "\n").split("\n")
    root: list[Json] = []
    open_levels: list[tuple[int, Json]] = []
    number = 0
    while number < len(lines):
        match = _LINE.match(lines[number])
        assert match is not None  # noqa: S101 - the pattern matches any line
        indent, line = len(match["indent"].expandtabs(4)), match["text"].rstrip()
        if not line:
            number += 1
            continue
        fence = _FENCE.match(line)
        if fence:
            block, number = _code(lines, number, fence)
        else:
            block = _block(line)
            number += 1
        while open_levels and open_levels[-1][0] >= indent:
            open_levels.pop()
        holder = open_levels[-1][1] if open_levels else None
        if holder is None:
            root.append(block)
        else:
            holder[holder["type"]].setdefault("children", []).append(block)
        if block["type"] not in ("code", "divider"):
            open_levels.append((indent, block))
    return root


def _code(lines: Sequence[str], start: int, fence: re.Match[str]) -> tuple[Json, int]:
    body, number = [], start + 1
    while number < len(lines) and not lines[number].strip().startswith(fence[1]):
        body.append(lines[number])
        number += 1
    content = {"rich_text": _plain_items("\n".join(body)), "language": fence[2] or "plain text"}
    return {"type": "code", "code": content}, number + 1


def _block(line: str) -> Json:
    if _DIVIDER.match(line):
        return {"type": "divider", "divider": {}}
    heading = _HEADING.match(line)
    if heading:
        return _text_block(f"heading_{len(heading[1])}", heading[2])
    to_do = _TO_DO.match(line)
    if to_do:
        return _text_block("to_do", to_do[2], checked=to_do[1] != " ")
    for pattern, kind in ((_BULLET, "bulleted_list_item"), (_NUMBER, "numbered_list_item"), (_QUOTE, "quote")):
        match = pattern.match(line)
        if match:
            return _text_block(kind, match[1])
    return _text_block("paragraph", line)


def _text_block(kind: str, text: str, **more: Any) -> Json:
    return {"type": kind, kind: {"rich_text": inline(text), **more}}


def inline(text: str) -> list[Json]:
    """Rich text items as a request would hold them."""
    items: list[Json] = []
    plain = ""
    end = 0

    def flush() -> None:
        nonlocal plain
        items.extend(_plain_items(plain))
        plain = ""

    for match in _INLINE.finditer(text):
        plain += text[end : match.start()]
        end = match.end()
        if match["escaped"] is not None:
            plain += match["escaped"]
            continue
        flush()
        items.extend(_styled(match))
    plain += text[end:]
    flush()
    return items


def _styled(match: re.Match[str]) -> list[Json]:
    if match["code_text"] is not None:
        return _plain_items(match["code_text"], code=True)
    if match["url"] is not None:
        items = inline(match["label"]) or _plain_items(match["url"])
        return [{**item, "text": {**item["text"], "link": {"url": match["url"]}}} for item in items]
    for group, style in (("bold", "bold"), ("strike", "strikethrough"), ("italic", "italic")):
        if match[group] is not None:
            return [
                {**item, "annotations": {**item.get("annotations", {}), style: True}} for item in inline(match[group])
            ]
    return []


def _plain_items(text: str, **style: bool) -> list[Json]:
    items = []
    for part in split_units(text, TEXT_UNITS):
        item: Json = {"type": "text", "text": {"content": part}}
        if style:
            item["annotations"] = style
        items.append(item)
    return items


def split_units(text: str, limit: int) -> Iterable[str]:
    """Cut into pieces of at most `limit` UTF-16 units, never through a character."""
    while utf16_units(text) > limit:
        cut = min(len(text), limit)
        while utf16_units(text[:cut]) > limit:
            cut -= 1
        yield text[:cut]
        text = text[cut:]
    if text:
        yield text


def to_markdown(
    blocks: Iterable[tuple[str, Json, Sequence[Any]]], plain: Callable[[Segment], str], depth: int = 0
) -> str:
    """Blocks as (type, content as kept, children of the same form). `plain` gives the text of a mention."""
    lines = []
    counter = 0
    for kind, content, children in blocks:
        counter = counter + 1 if kind == "numbered_list_item" else 0
        tabs = "\t" * depth
        text = _line(kind, content, counter, plain)
        lines.append("\n".join(tabs + line if line else line for line in text.split("\n")))
        if children:
            lines.append(to_markdown(children, plain, depth + 1))
    return "\n".join(lines)


def _line(kind: str, content: Json, counter: int, plain: Callable[[Segment], str]) -> str:
    text = "".join(_inline(segment, plain) for segment in content.get("rich_text", ()))
    if kind.startswith("heading_"):
        return "#" * int(kind[-1]) + " " + text
    if kind == "code":
        raw = "".join(plain(segment) for segment in content.get("rich_text", ()))
        language = content.get("language", "plain text")
        return f"```{'' if language == 'plain text' else language}\n{raw}\n```"
    if kind == "equation":
        return f"$$\n{content['expression']}\n$$"
    if kind == "to_do":
        return f"- [{'x' if content.get('checked') else ' '}] {text}"
    prefix = {"bulleted_list_item": "- ", "numbered_list_item": f"{counter}. ", "quote": "> ", "toggle": "▶ "}.get(
        kind, ""
    )
    if kind == "divider":
        return "---"
    if kind in ("child_page", "child_database"):
        tag = kind.removeprefix("child_")
        return f'<{tag} url="{content["url"]}">{content["title"]}</{tag}>'
    if kind == "table_row":
        return "| " + " | ".join("".join(_inline(s, plain) for s in cell) for cell in content.get("cells", ())) + " |"
    if "url" in content:
        return f"[{content['url']}]({content['url']})"
    if "source" in content:
        source = content["source"]
        return f"![{source.get('name', kind)}]({source.get('external') or source.get('file') or 'file'})"
    return prefix + text


def _inline(segment: Segment, plain: Callable[[Segment], str]) -> str:
    if "equation" in segment:
        return f"${segment['equation']}$"
    if "content" not in segment:
        return plain(segment)
    style = segment.get("style", {})
    text: str = segment["content"] if style.get("code") else _ESCAPED.sub(r"\\\1", segment["content"])
    for name, mark in (("code", "`"), ("strikethrough", "~~"), ("italic", "*"), ("bold", "**")):
        if style.get(name):
            text = f"{mark}{text}{mark}"
    return f"[{text}]({segment['link']})" if segment.get("link") else text

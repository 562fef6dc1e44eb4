"""Rich text: segments as they arrive, as they are kept (only what is not the default), and as they are answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sources.board.board import Board
from sources.board.call import Json
from sources.board.checks import TEXT_COLORS, check_color, check_text
from sources.board.errors import UNDEFINED, invalid_body
from sources.board.ids import page_url, read_id
from sources.board.times import written_moment
from sources.board.users import render_user

TEXT_UNITS = 2000
EQUATION_UNITS = 1000
URL_UNITS = 2000
ARRAY_ITEMS = 100
_STYLES = ("bold", "italic", "strikethrough", "underline", "code")

Segment = dict[str, Any]


def accept(value: Any, path: str) -> list[Segment]:
    """Check a list of rich text items. `path` is where it stands in the request."""
    if not isinstance(value, list):
        raise invalid_body(path, "an array", value)
    if len(value) > ARRAY_ITEMS:
        raise invalid_body(f"{path}.length", f"≤ `{ARRAY_ITEMS}`", len(value))
    kept = [_accept_item(item, f"{path}[{number}]") for number, item in enumerate(value)]
    return _merged(segment for segment in kept if segment.get("content") != "")


def _merged(segments: Iterable[Segment]) -> list[Segment]:
    """Neighbours that look alike become one, however long: the limit holds for requests only."""
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else {}
        alike = last.get("style") == segment.get("style") and last.get("link") == segment.get("link")
        if "content" in segment and "content" in last and alike:
            merged[-1] = {**last, "content": last["content"] + segment["content"]}
        else:
            merged.append(segment)
    return merged


def _accept_item(item: Any, path: str) -> Segment:
    if not isinstance(item, dict):
        raise invalid_body(path, "an object", item)
    segment: Segment
    if "text" in item:
        segment = _accept_text(item["text"], f"{path}.text")
    elif "equation" in item:
        segment = {"equation": _accept_string(item["equation"], "expression", f"{path}.equation", EQUATION_UNITS)}
    elif "mention" in item:
        segment = {"mention": _accept_mention(item["mention"], f"{path}.mention")}
    else:
        raise invalid_body(f"{path}.text", "defined", UNDEFINED)
    style = item.get("annotations")
    if style is not None:
        kept = _accept_style(style, f"{path}.annotations")
        if kept:
            segment["style"] = kept
    return segment


def _accept_text(text: Any, path: str) -> Segment:
    segment: Segment = {"content": _accept_string(text, "content", path, TEXT_UNITS)}
    link = text.get("link")
    if link is not None:
        segment["link"] = _accept_string(link, "url", f"{path}.link", URL_UNITS)
    return segment


def _accept_string(holder: Any, key: str, path: str, limit: int) -> str:
    value = holder.get(key, UNDEFINED) if isinstance(holder, dict) else UNDEFINED
    return check_text(value, f"{path}.{key}", limit)


def _accept_style(style: Any, path: str) -> Json:
    if not isinstance(style, dict):
        raise invalid_body(path, "an object", style)
    for key, value in style.items():
        if key in _STYLES:
            if not isinstance(value, bool):
                raise invalid_body(f"{path}.{key}", "a boolean", value)
        elif key == "color":
            check_color(value, f"{path}.color", TEXT_COLORS)
        else:
            raise invalid_body(f"{path}.{key}", "not present", value)
    return {key: value for key, value in style.items() if value not in (False, "default")}


def _accept_mention(mention: Any, path: str) -> Json:
    if not isinstance(mention, dict):
        raise invalid_body(path, "an object", mention)
    for kind in ("user", "page", "database", "data_source"):
        if kind in mention:
            target = read_id(mention[kind].get("id")) if isinstance(mention[kind], dict) else None
            if target is None:
                raise invalid_body(f"{path}.{kind}.id", "a valid uuid", mention[kind])
            return {"type": kind, kind: {"id": target}}
    if "date" in mention:
        date = mention["date"]
        start = (
            written_moment(date["start"], None)
            if isinstance(date, dict) and isinstance(date.get("start"), str)
            else None
        )
        if start is None:
            raise invalid_body(f"{path}.date.start", "a valid ISO 8601 date string", date)
        end = date.get("end")
        return {"type": "date", "date": {"start": start, "end": end and written_moment(end, None), "time_zone": None}}
    kind = mention.get("type", next(iter(mention), "type"))
    if kind in ("template_mention", "link_preview", "link_mention", "custom_emoji") and kind in mention:
        return {"type": kind, kind: mention[kind]}
    raise invalid_body(f"{path}.user", "defined", UNDEFINED)


def render(segments: Sequence[Segment], board: Board) -> list[Json]:
    return [_render_item(segment, board) for segment in segments]


def _render_item(segment: Segment, board: Board) -> Json:
    style = segment.get("style", {})
    annotations = {name: style.get(name, False) for name in _STYLES}
    annotations["color"] = style.get("color", "default")
    if "content" in segment:
        link = segment.get("link")
        return {
            "type": "text",
            "text": {"content": segment["content"], "link": {"url": link} if link else None},
            "annotations": annotations,
            "plain_text": segment["content"],
            "href": link,
        }
    if "equation" in segment:
        expression = segment["equation"]
        return {
            "type": "equation",
            "equation": {"expression": expression},
            "annotations": annotations,
            "plain_text": expression,
            "href": None,
        }
    mention, text, href = _resolve(segment["mention"], board)
    return {"type": "mention", "mention": mention, "annotations": annotations, "plain_text": text, "href": href}


def _resolve(mention: Json, board: Board) -> tuple[Json, str, str | None]:
    kind = mention["type"]
    if kind == "user":
        user_id = mention["user"]["id"]
        node = board.user(user_id)
        if node is None:
            return mention, "@Anonymous", None
        return {"type": "user", "user": render_user(board, user_id)}, f"@{node.body['name']}", None
    if kind in ("page", "database", "data_source"):
        target = mention[kind]["id"]
        node = board.store.get(target)
        title = "Untitled" if node is None else title_of(node.body, board) or "Untitled"
        return mention, title, page_url(target)
    if kind == "date":
        date = mention["date"]
        return mention, date["start"] if date["end"] is None else f"{date['start']} → {date['end']}", None
    return mention, str(mention[kind].get("url") or mention[kind].get("name") or kind), mention[kind].get("url")


def plain(segments: Iterable[Segment], board: Board) -> str:
    """What a reader sees, without styling."""
    parts = []
    for segment in segments:
        if "content" in segment:
            parts.append(segment["content"])
        elif "equation" in segment:
            parts.append(segment["equation"])
        else:
            parts.append(_resolve(segment["mention"], board)[1])
    return "".join(parts)


def title_of(body: Json, board: Board) -> str:
    """The title of a page (its title property), database or data source."""
    segments = body["properties"].get("title", ()) if "title" not in body else body["title"]
    return plain(segments, board)

"""File references in blocks, covers, icons and file columns: external addresses and what was uploaded here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sources.board.call import Call, Json
from sources.board.checks import check_text
from sources.board.errors import UNDEFINED, invalid, invalid_body
from sources.board.ids import read_id
from sources.board.richtext import URL_UNITS
from sources.board.times import whole_stamp

LINK_LIFE = timedelta(hours=1)


def accept_file(call: Call, item: Any, path: str, *, named: bool = False) -> Json:
    if not isinstance(item, dict):
        raise invalid_body(path, "an object", item)
    kept: Json
    if "external" in item:
        url = item["external"].get("url") if isinstance(item["external"], dict) else None
        url = UNDEFINED if url is None else url
        kept = {"external": check_text(url, f"{path}.external.url", URL_UNITS)}
    elif "file_upload" in item:
        upload_id = read_id(item["file_upload"].get("id")) if isinstance(item["file_upload"], dict) else None
        if upload_id is None:
            raise invalid_body(f"{path}.file_upload.id", "a valid uuid", item["file_upload"])
        upload = call.find("file_upload", upload_id)
        if upload.body["status"] != "uploaded":
            raise invalid(f"File upload {upload_id} is not in an `uploaded` state.")
        call.store.put(upload.with_body(attached=True))
        kept = {"file_upload": upload_id}
    elif "file" in item and isinstance(item["file"], dict) and isinstance(item["file"].get("url"), str):
        kept = {"file": item["file"]["url"]}
    else:
        raise invalid_body(f"{path}.external", "defined", UNDEFINED)
    if named:
        name = item.get("name") or _name_of(call, kept)
        kept["name"] = name
    return kept


def _name_of(call: Call, kept: Json) -> str:
    if "file_upload" in kept:
        return str(call.find("file_upload", kept["file_upload"]).body["filename"])
    address = kept.get("external") or kept.get("file") or ""
    return str(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1]


def render_file(call: Call, kept: Json) -> Json:
    shown: Json = {"name": kept["name"]} if "name" in kept else {}
    if "external" in kept:
        return shown | {"type": "external", "external": {"url": kept["external"]}}
    expiry = whole_stamp(call.now + LINK_LIFE)
    url = kept["file"] if "file" in kept else f"https://files.invalid/{kept['file_upload']}"
    return shown | {"type": "file", "file": {"url": url, "expiry_time": expiry}}


def accept_icon(call: Call, icon: Any, path: str) -> Json | None:
    if icon is None:
        return None
    if isinstance(icon, dict):
        if isinstance(icon.get("emoji"), str):
            return {"emoji": icon["emoji"]}
        for kind in ("custom_emoji", "icon"):
            if isinstance(icon.get(kind), dict):
                return {kind: icon[kind]}
    return accept_file(call, icon, path)


def render_icon(call: Call, kept: Json | None) -> Json | None:
    if kept is None:
        return None
    for kind in ("emoji", "custom_emoji", "icon"):
        if kind in kept:
            return {"type": kind, kind: kept[kind]}
    return render_file(call, kept)


def accept_cover(call: Call, cover: Any, path: str) -> Json | None:
    return None if cover is None else accept_file(call, cover, path)


def render_cover(call: Call, kept: Json | None) -> Json | None:
    return None if kept is None else render_file(call, kept)

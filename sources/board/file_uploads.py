"""File uploads: /v1/file_uploads. What was sent is measured and forgotten: the board keeps no contents, and fetches no
external address, so those stay pending."""

from __future__ import annotations

import mimetypes
from datetime import timedelta

from sources.board.call import Call, Json
from sources.board.checks import check_text
from sources.board.errors import UNDEFINED, invalid, invalid_body, invalid_query
from sources.board.paging import page_of
from sources.board.store import Node
from sources.board.times import minute_stamp
from sources.board.users import MAX_UPLOAD_BYTES

LIFE = timedelta(hours=1)
NAME_UNITS = 900
_MODES = ("single_part", "multi_part", "external_url")
_STATUSES = ("pending", "uploaded", "expired", "failed")


def create(call: Call) -> Json:
    mode = call.body.get("mode", "single_part")
    if mode not in _MODES:
        raise invalid_body("body.mode", '`"single_part"`, `"multi_part"`, or `"external_url"`', mode)
    filename, content_type = call.body.get("filename"), call.body.get("content_type")
    for name, value in (("filename", filename), ("content_type", content_type)):
        if value is not None:
            check_text(value, f"body.{name}", NAME_UNITS)
    if mode != "single_part" and not isinstance(filename, str):
        raise invalid_body("body.filename", "defined", filename or UNDEFINED)
    if mode == "external_url" and not isinstance(call.body.get("external_url"), str):
        raise invalid_body("body.external_url", "defined", UNDEFINED)
    parts = call.body.get("number_of_parts") if mode == "multi_part" else None
    if mode == "multi_part" and not isinstance(parts, int):
        raise invalid_body("body.number_of_parts", "defined", UNDEFINED)
    node = call.store.put(
        call.new(
            "file_upload",
            "file_uploads",
            {
                "mode": mode,
                "filename": filename,
                "content_type": content_type or mimetypes.guess_type(filename or "")[0],
                "status": "pending",
                "size": None,
                "parts": parts,
                "sent": 0,
            },
        )
    )
    return _render(call, node)


def retrieve(call: Call) -> Json:
    return _render(call, call.find("file_upload", call.id_of("file_upload_id")))


def list_uploads(call: Call) -> Json:
    status = call.argument("status")
    if status is not None and status not in _STATUSES:
        raise invalid_query("query.status", "`pending`, `uploaded`, `expired`, or `failed`", status)
    newest = reversed(call.store.of_kind("file_upload"))
    shown = [_render(call, node) for node in newest if status is None or _status(call, node) == status]
    return page_of(call, shown, "file_upload")


def send(call: Call) -> Json:
    node = call.find("file_upload", call.id_of("file_upload_id"))
    sent = call.files.get("file")
    if not isinstance(sent, dict):
        raise invalid_body("body.file", "defined", UNDEFINED)
    if _status(call, node) != "pending":
        raise invalid("File upload must be in a `pending` state to be sent.")
    body = node.body
    if sent["size"] > MAX_UPLOAD_BYTES and body["mode"] == "single_part":
        raise invalid(f"File size exceeds the limit of {MAX_UPLOAD_BYTES} bytes.")
    changes: Json = {"size": (body["size"] or 0) + sent["size"], "sent": body["sent"] + 1}
    if body["mode"] == "single_part":
        changes["status"] = "uploaded"
        changes["filename"] = body["filename"] or sent["filename"]
        changes["content_type"] = body["content_type"] or sent["content_type"]
    return _render(
        call,
        call.store.put(call.edited(node.with_body(**changes))),
    )


def complete(call: Call) -> Json:
    node = call.find("file_upload", call.id_of("file_upload_id"))
    if node.body["mode"] != "multi_part" or node.body["sent"] < node.body["parts"]:
        raise invalid("File upload is not ready to be completed.")
    return _render(
        call,
        call.store.put(call.edited(node.with_body(status="uploaded"))),
    )


def _status(call: Call, node: Node) -> str:
    if node.body["status"] == "pending" and node.created_at + LIFE < call.now:
        return "expired"
    return str(node.body["status"])


def _render(call: Call, node: Node) -> Json:
    body, status = node.body, _status(call, node)
    user = call.board.user(node.created_by)
    shown: Json = {
        "object": "file_upload",
        "id": node.id,
        "created_time": minute_stamp(node.created_at),
        "created_by": {"id": node.created_by, "type": user.body["type"] if user else "bot"},
        "last_edited_time": minute_stamp(node.edited_at),
        "expiry_time": None if body.get("attached") else minute_stamp(node.created_at + LIFE),
    }
    if status == "pending":
        shown["upload_url"] = f"{call.base_url}/v1/file_uploads/{node.id}/send"
    shown |= {
        "in_trash": False,
        "status": status,
        "filename": body["filename"],
        "content_type": body["content_type"],
        "content_length": body["size"],
    }
    if "import_result" in body:
        shown["file_import_result"] = body["import_result"]
    if body["mode"] == "multi_part":
        shown["number_of_parts"] = {"total": body["parts"], "sent": body["sent"]}
    if call.says_archived:
        shown["archived"] = False
    return shown

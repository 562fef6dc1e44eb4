"""Identifiers: object ids with or without dashes, property ids that travel URL-encoded, and the addresses of pages."""

from __future__ import annotations

import hashlib
import re
import secrets
import uuid
from urllib.parse import quote, unquote

_UUID = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[1-8][0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}\Z"
    r"|0{8}-?0{4}-?0{4}-?0{4}-?0{12}\Z|f{8}-?f{4}-?f{4}-?f{4}-?f{12}\Z"
)
_PROPERTY_ALPHABET = "".join(chr(c) for c in range(0x3A, 0x7F) if chr(c) not in '"\\`')
_NAMESPACE = uuid.UUID("6f0a1d6c-3f0e-5c55-9d53-0b0a4de0b0a4")
SITE = "https://www.notion.so/"

WORKSPACE_ID = "b0a4d000-0000-4000-8000-000000000000"
ROOT_PAGE_ID = "b0a4d000-0000-4000-8000-000000000001"
PERSON_ID = "b0a4d000-0000-4000-8000-00000000000a"
PERSON_TOKEN = "person-at-the-board"  # noqa: S105 - no secret: where tokens are configured it is not accepted
"""Whose calls are a person's: for tests that act as one through the API. The pages for people need none."""


def new_id() -> str:
    return str(uuid.uuid4())


def new_property_id() -> str:
    return "".join(secrets.choice(_PROPERTY_ALPHABET) for _ in range(4))


def encoded(property_id: str) -> str:
    """As JavaScript's encodeURIComponent does it."""
    return quote(property_id, safe="-_.!~*'()")


def decoded(property_id: str) -> str:
    return unquote(property_id)


def read_id(text: object) -> str | None:
    """The dashed lower-case form, or None when it is no id."""
    if not isinstance(text, str):
        return None
    lowered = text.lower()
    if not _UUID.match(lowered):
        return None
    return str(uuid.UUID(lowered))


def bot_id(token: str) -> str:
    """Another token is another integration, and stays the same one after a restart."""
    return str(uuid.uuid5(_NAMESPACE, hashlib.sha256(token.encode()).hexdigest()))


def page_url(object_id: str, title: str = "") -> str:
    slug = re.sub(r"[^A-Za-z0-9]+", "-", title).strip("-")
    bare = object_id.replace("-", "")
    return f"{SITE}{slug}-{bare}" if slug else f"{SITE}{bare}"

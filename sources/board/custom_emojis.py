"""Custom emojis: /v1/custom_emojis. People upload them in Notion's own client; a local board has none."""

from __future__ import annotations

from sources.board.call import Call, Json
from sources.board.paging import page_of


def list_emojis(call: Call) -> Json:
    return page_of(call, [], "custom_emoji")

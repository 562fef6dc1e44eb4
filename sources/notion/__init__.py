"""A Notion database as a task board: the only package that knows how Notion answers."""

from sources.notion.client import NotionClient
from sources.notion.config import BoardSettings, NotionConnection
from sources.notion.task_board import NotionTaskBoard, open_board

__all__ = ["BoardSettings", "NotionClient", "NotionConnection", "NotionTaskBoard", "open_board"]

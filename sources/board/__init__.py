"""The embedded board: a local server that speaks the Notion API, kept in one SQLite file, with a kanban page."""

from sources.board.ids import PERSON_ID, PERSON_TOKEN, ROOT_PAGE_ID
from sources.board.server import BoardServer, running, serve
from sources.board.store import BoardInUse

__all__ = ["PERSON_ID", "PERSON_TOKEN", "ROOT_PAGE_ID", "BoardInUse", "BoardServer", "running", "serve"]

"""The table of routes: method, path, handler, and the versions of the API that have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sources.board import (
    blocks,
    comments,
    custom_emojis,
    data_sources,
    databases,
    file_uploads,
    page_markdown,
    pages,
    property_items,
    query,
    search,
    users,
    views,
)
from sources.board.call import DATA_SOURCES, LEGACY, VERSIONS, Handler

_NEW = frozenset(version for version in VERSIONS if version >= DATA_SOURCES)
_OLD = frozenset((LEGACY,))
_ALL = frozenset(VERSIONS)


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    versions: frozenset[str] = _ALL

    @property
    def label(self) -> str:
        """What the ledger and the faults call it: `PATCH /v1/pages/{page_id}`."""
        return f"{self.method} {self.path}"

    @property
    def writes(self) -> bool:
        return self.method != "GET" and self.path != "/v1/search" and not self.path.endswith("/query")


ROUTES = (
    Route("GET", "/v1/users/me", users.me),
    Route("GET", "/v1/users", users.list_users),
    Route("GET", "/v1/users/{user_id}", users.retrieve),
    Route("POST", "/v1/databases", databases.create),
    Route("GET", "/v1/databases/{database_id}", databases.retrieve),
    Route("PATCH", "/v1/databases/{database_id}", databases.update),
    Route("POST", "/v1/databases/{database_id}/query", query.query_database, _OLD),
    Route("POST", "/v1/data_sources", data_sources.create, _NEW),
    Route("GET", "/v1/data_sources/{data_source_id}", data_sources.retrieve, _NEW),
    Route("PATCH", "/v1/data_sources/{data_source_id}", data_sources.update, _NEW),
    Route("POST", "/v1/data_sources/{data_source_id}/query", query.query_data_source, _NEW),
    Route("GET", "/v1/data_sources/{data_source_id}/templates", data_sources.templates, _NEW),
    Route("POST", "/v1/pages", pages.create),
    Route("GET", "/v1/pages/{page_id}", pages.retrieve),
    Route("PATCH", "/v1/pages/{page_id}", pages.update),
    Route("POST", "/v1/pages/{page_id}/move", pages.move),
    Route("GET", "/v1/pages/{page_id}/properties/{property_id}", property_items.retrieve),
    Route("GET", "/v1/pages/{page_id}/markdown", page_markdown.retrieve),
    Route("PATCH", "/v1/pages/{page_id}/markdown", page_markdown.update),
    Route("GET", "/v1/async_tasks/{task_id}", page_markdown.retrieve_task),
    Route("GET", "/v1/blocks/{block_id}", blocks.retrieve),
    Route("PATCH", "/v1/blocks/{block_id}", blocks.update),
    Route("DELETE", "/v1/blocks/{block_id}", blocks.delete),
    Route("GET", "/v1/blocks/{block_id}/children", blocks.list_children),
    Route("PATCH", "/v1/blocks/{block_id}/children", blocks.append_children),
    Route("GET", "/v1/comments", comments.list_comments),
    Route("POST", "/v1/comments", comments.create),
    Route("GET", "/v1/comments/{comment_id}", comments.retrieve),
    Route("PATCH", "/v1/comments/{comment_id}", comments.update),
    Route("DELETE", "/v1/comments/{comment_id}", comments.delete),
    Route("POST", "/v1/search", search.search),
    Route("GET", "/v1/views", views.list_views, _NEW),
    Route("POST", "/v1/views", views.create, _NEW),
    Route("GET", "/v1/views/{view_id}", views.retrieve, _NEW),
    Route("PATCH", "/v1/views/{view_id}", views.update, _NEW),
    Route("DELETE", "/v1/views/{view_id}", views.delete, _NEW),
    Route("POST", "/v1/views/{view_id}/queries", views.create_query, _NEW),
    Route("GET", "/v1/views/{view_id}/queries/{query_id}", views.query_results, _NEW),
    Route("DELETE", "/v1/views/{view_id}/queries/{query_id}", views.delete_query, _NEW),
    Route("GET", "/v1/custom_emojis", custom_emojis.list_emojis),
    Route("GET", "/v1/file_uploads", file_uploads.list_uploads),
    Route("POST", "/v1/file_uploads", file_uploads.create),
    Route("GET", "/v1/file_uploads/{file_upload_id}", file_uploads.retrieve),
    Route("POST", "/v1/file_uploads/{file_upload_id}/send", file_uploads.send),
    Route("POST", "/v1/file_uploads/{file_upload_id}/complete", file_uploads.complete),
)

_BY_SHAPE: dict[tuple[str, int], list[tuple[tuple[str, ...], Route]]] = {}
for _route in ROUTES:
    _parts = tuple(_route.path.strip("/").split("/"))
    _BY_SHAPE.setdefault((_route.method, len(_parts)), []).append((_parts, _route))


def match(method: str, path_parts: list[str]) -> tuple[Route, Mapping[str, str]] | None:
    """The route of a request, whatever its version, and its path parameters (already decoded). The first row wins."""
    for parts, route in _BY_SHAPE.get((method, len(path_parts)), ()):
        params = {}
        for pattern, given in zip(parts, path_parts, strict=True):
            if pattern[0] == "{":
                params[pattern[1:-1]] = given
            elif pattern != given:
                break
        else:
            return route, params
    return None

"""The board's refusals, in Notion's envelope. One constructor for each wording that clients are known to look at."""

from __future__ import annotations

import json
from typing import Any


class NotionError(Exception):
    """An answer that is not a success. Raising it rolls the call's changes back."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        additional_data: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.additional_data = additional_data
        self.headers = headers or {}

    def envelope(self, request_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"object": "error", "status": self.status, "code": self.code, "message": self.message}
        if self.additional_data is not None:
            answer["additional_data"] = self.additional_data
        answer["request_id"] = request_id
        return answer


def invalid(message: str) -> NotionError:
    return NotionError(400, "validation_error", message)


def invalid_body(path: str, expectation: str, value: Any) -> NotionError:
    """`body failed validation: body.page_size should be ≤ `100`, instead was `101`.`"""
    return invalid(f"body failed validation: {path} should be {expectation}, instead was `{shown(value)}`.")


def invalid_query(path: str, expectation: str, value: Any) -> NotionError:
    return invalid(f"query failed validation: {path} should be {expectation}, instead was `{shown(value)}`.")


def invalid_id(name: str, value: str) -> NotionError:
    return invalid(f"path failed validation: path.{name} should be a valid uuid, instead was `{shown(value)}`.")


def shown(value: Any) -> str:
    """A value as Notion quotes it back, cut short."""
    if value is UNDEFINED:
        return "undefined"
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 200 else text[:197] + "..."


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


def not_found(kind: str, object_id: str, integration: dict[str, Any]) -> NotionError:
    """Unshared, deleted for good and never existed look alike."""
    if kind == "user":
        message = (
            f"Could not find user with ID: {object_id}. Make sure your integration has capabilities to read user "
            "information. With those capabilities, only members and guests in the integration's workspace are visible."
        )
    else:
        message = (
            f"Could not find {kind} with ID: {object_id}. Make sure the relevant pages and databases are shared with "
            f'your integration "{integration["name"]}".'
        )
    return NotionError(404, "object_not_found", message, additional_data={"integration_id": integration["id"]})


def unauthorized() -> NotionError:
    return NotionError(401, "unauthorized", "API token is invalid.")


def invalid_url() -> NotionError:
    return NotionError(400, "invalid_request_url", "Invalid request URL.")


def invalid_json() -> NotionError:
    return NotionError(400, "invalid_json", "Error parsing JSON body.")


def missing_version() -> NotionError:
    return NotionError(
        400,
        "missing_version",
        "Notion-Version header failed validation: Notion-Version header should be defined, instead was `undefined`.",
    )


def unknown_version(value: str, known: tuple[str, ...]) -> NotionError:
    allowed = ", ".join(f"`{shown(v)}`" for v in known[:-1]) + f", or `{shown(known[-1])}`"
    return invalid(
        f"Notion-Version header failed validation: Notion-Version header should be {allowed}, "
        f"instead was `{shown(value)}`."
    )


def archived_block() -> NotionError:
    return invalid("Can't edit block that is archived. You must unarchive the block before editing.")


def archived_ancestor() -> NotionError:
    return invalid(
        "Can't edit page on block with an archived ancestor. You must unarchive the ancestor before editing page."
    )


def conflict() -> NotionError:
    return NotionError(409, "conflict_error", "Conflict occurred while saving. Please try again.")

"""JSON as a type, one that pydantic can check too."""

from __future__ import annotations

from typing import TypeAlias

from pydantic import JsonValue

JSON: TypeAlias = JsonValue

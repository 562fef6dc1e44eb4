"""The `function` action: a durable function of the operator's own module does the card."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import Field

from hermes.config.section import Section, Text
from hermes.durable.registry import REGISTRY
from hermes.model.claim import CardInput
from hermes.model.json import JSON


class FunctionAction(Section):
    type: Literal["function"]
    function: Text
    """`module.name` of a durable function in one of the modules under `functions:`; it takes the card as `card`."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Further arguments by name."""


@dataclass(frozen=True, slots=True)
class RunFunction:
    function: str
    extra: dict[str, JSON] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function

    def args(self, card: CardInput) -> dict[str, JSON]:
        return {"card": asdict(card), **self.extra}


def problem(action: FunctionAction) -> tuple[str, str] | None:
    """(key, what is wrong), once the operator's modules are imported."""
    known = sorted(name for name in REGISTRY.names() if not name.startswith("hermes."))
    found = REGISTRY.find(action.function)
    if found is None:
        return "function", f"no durable function is named {action.function!r} (there are: {', '.join(known) or 'none'})"
    parameters = found.parameters()
    if "card" not in parameters:
        return "function", f"{action.function} must take the card: `async def ...(card: CardInput, ...)`"
    for name in action.args:
        if name not in parameters:
            return "args", f"{action.function} takes no argument {name!r} (it takes: {', '.join(parameters)})"
    missing = [name for name, needed in parameters.items() if needed and name != "card" and name not in action.args]
    if missing:
        return "args", f"{action.function} also needs: {', '.join(missing)}"
    return None

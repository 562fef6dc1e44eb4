"""What the README shows is true: its function runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hermes.cli import main
from hermes.durable import Refused
from hermes.model.claim import CardInput

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CARD = CardInput(
    id="1", url="", title="17", description="", body="", priority=None, properties={}, generation=1, board="team"
)


class Billing(httpx.AsyncClient):
    """A billing service that refuses customer 13."""

    def __init__(self, **_: object) -> None:
        super().__init__(base_url="http://billing", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        assert request.headers["Idempotency-Key"]
        return httpx.Response(422) if b'"13"' in request.content else httpx.Response(201, json={"number": 7})


@pytest.mark.parametrize(("customer", "ending"), [("17", "Invoice 7 was due today."), ("13", Refused)])
def test_the_function_in_the_readme_runs(monkeypatch: pytest.MonkeyPatch, customer: str, ending: object) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    module: dict[str, object] = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), module)  # noqa: S102 -- our own page
    monkeypatch.setattr(httpx, "AsyncClient", Billing)
    result = asyncio.run(module["work"](replace(CARD, title=customer)))  # type: ignore[operator]
    assert result == ending or isinstance(result, ending)  # type: ignore[arg-type]


def shown_commands() -> list[str]:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    return sorted(set(re.findall(r"hermes-poll ((?:(?:board|polls|runs|db) )?[a-z][a-z-]+)", text)))


@pytest.mark.parametrize("words", shown_commands())
def test_every_command_that_is_shown_exists(words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])
    assert ended.value.code == 0


def test_every_target_that_is_shown_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|    )make ([a-z]+)", README)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []

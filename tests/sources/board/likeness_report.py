"""Writes what a replay found as a page of Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from likeness import Result, Tally

EXPLAINED = (
    ("POST /v1/data_sources/{data_source_id}/query", ".results: ",
     "The recordings had e-mail addresses replaced, so a filter for part of an address finds other rows than it did."),
    ("POST /v1/search", ".results: some items became none",
     "Notion's search is fuzzy and answers titles that hold none of the words; the board answers only titles that hold "
     "all of them. Nothing of Hermes searches."),
)  # fmt: skip

BEYOND = """\
## What these figures do not show

- An answer about a seeded object proves that it is shown alike, not that it would have been made alike: it was read
  from a recorded answer before. Answers about what a file made itself prove both.
- Values are not compared, only their types, except that a list must have as many items (not one over a whole workspace:
  of search, users and file uploads only the items that both sides answer are compared). So filters are compared by how
  many rows they let through, and an id, time, address, cursor or colour only by being a string.
- Success far outnumbers refusal: {errors} refusals of {codes} kinds. The wording of other refusals comes from what
  public reports quote; those that Hermes meets have tests in `tests/sources/board`, but no recording.
- The legacy version 2022-06-28 is not recorded at all.

## Where the board knowingly differs

- Formulas are evaluated by a small evaluator (arithmetic, texts, dates, `if`, lists); what it does not know answers an
  empty string value.
- File contents are measured and forgotten; files from external addresses are never fetched and stay `pending`.
- Templates and custom emojis are always none; a button does nothing; a verification is kept and never expires.
- An async task has always succeeded when it is looked up.
- Views are kept and can be queried; their layout has no meaning here.
- The days and weeks of relative filters (`this_week`, `past_month`, ...) are those of UTC; weeks begin on Sunday.
- Markdown covers plain pages (headings, lists, to-dos, quotes, code, equations, links, styles), not the whole dialect.
- Agents, sessions, meeting notes and OAuth are not served; they answer `invalid_request_url`.
"""


def write_report(result: Result) -> str:
    tallies = result.routes.values()
    total, errors = sum(t.compared for t in tallies), sum(t.errors for t in tallies)
    same = sum(t.same_shape for t in tallies)
    lines = [
        "# How alike the local board and Notion are",
        "",
        "Written by `python tests/sources/board/likeness.py RECORDINGS --write docs/board-likeness.md`. It replays",
        "recorded traffic of Notion against the board in the recorded order, each file on a fresh board that was",
        "seeded with what the file mentions but never made.",
        "",
        f"- Answers compared: **{total}**, with the same status: **{sum(t.same_status for t in tallies)}**.",
        f"- Refusals: {errors}, with the same error code: **{sum(t.same_code for t in tallies)}**, "
        f"with the same words: {sum(t.same_message for t in tallies)}.",
        f"- Answers of the same shape (the same keys and types, all the way down): **{same}** ({same / total:.1%}).",
        f"- Objects seeded from recorded answers: {result.seeded}; as stubs, for no answer shows them: {result.stubs}.",
        "",
        "| Route | Answers | Status same | Error code same | Shape same |",
        "|---|--:|--:|--:|--:|",
    ]
    for label, tally in sorted(result.routes.items()):
        lines.append(f"| `{label}` | {tally.compared} | {tally.same_status} | {_codes(tally)} | {_share(tally)} |")
    skipped = [f"- {count} x {reason}" for reason, count in sorted(result.skipped.items())]
    lines += ["", "## What was not replayed", "", *(skipped or ["Nothing: every recorded request was sent."])]
    lines += ["", "## Every difference that remains", "", *_differences(result)]
    return "\n".join(lines) + "\n\n" + BEYOND.format(errors=errors, codes=len(result.codes))


def _codes(tally: Tally) -> str:
    return f"{tally.same_code} of {tally.errors}" if tally.errors else "-"


def _share(tally: Tally) -> str:
    return f"{tally.same_shape} ({tally.same_shape / tally.compared:.1%})"


def _differences(result: Result) -> list[str]:
    found = []
    for label, tally in sorted(result.routes.items()):
        for part, count in tally.parts.most_common():
            found.append(f"- `{label}`: {count} x `{part}` (first in `{tally.examples[part]}`). {_why(label, part)}")
    return found or ["None."]


def _why(label: str, part: str) -> str:
    for route, beginning, reason in EXPLAINED:
        if route == label and part.startswith(beginning):
            return reason
    return "**Not explained.**"


def unexplained(result: Any) -> list[str]:
    return [line for line in _differences(result) if line.endswith("**Not explained.**")]

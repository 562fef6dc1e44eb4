"""The durable functions of the demo: what happens to a card. An operator's own module looks like this."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import httpx

from hermes.durable import Refused, command, current_step, delay, function
from hermes.errors import Retryable
from hermes.model.claim import CardInput

SENTENCE = "Line {number}: coffee ☕, trains 🚆, a naïve façade and long nights 🌙, all counted, nothing lost 🎉. "


@dataclass(frozen=True)
class Answer:
    number: str = ""
    refusal: str | None = None


@command(retries=1, timeout=timedelta(seconds=5))
async def ask_office(office: str, route: str, subject: str, customer: str = "", text: str = "") -> Answer:
    """One call to the office. The key is the same at every attempt, so asking twice does it once."""
    body = {"subject": subject, "customer": customer, "text": text}
    async with httpx.AsyncClient(base_url=office, timeout=4, trust_env=False) as client:
        answer = await client.post(route, json=body, headers={"Idempotency-Key": current_step().idempotency_key})
    if answer.status_code == 422:  # a refusal is an answer, not an accident
        return Answer(refusal=answer.json()["error"])
    if answer.status_code >= 400:
        raise Retryable(f"the office answered {answer.status_code}: {answer.json()['error']}")
    return Answer(answer.json()["number"])


@command(effect="none")
def compile_report(title: str) -> str:
    """A long text: about 30,000 characters, emoji and all."""
    lines = [f"{title}: everything that happened."]
    number = 0
    while sum(map(len, lines)) < 30_000:
        number += 1
        lines.append(SENTENCE.format(number=number) * 5)
    return "\n\n".join(line.strip() for line in lines)


@function
async def issue_invoice(card: CardInput, office: str) -> str | Refused:
    subject, _, customer = card.title.partition(" for customer ")
    answer = await ask_office(office, "/invoices", subject, customer, card.description)
    if answer.refusal is not None:
        return Refused(f"The office refuses: {answer.refusal}.")
    return f"Sent as {answer.number}."


@function
async def do_paperwork(card: CardInput, office: str) -> str:
    if card.title.startswith("Report"):
        report = await compile_report(card.title)
        await ask_office(office, "/reports", card.title, text=report)
        return report
    first = await ask_office(office, "/reminders", card.title, text="first")
    await delay(timedelta(seconds=5))  # hibernates: no thread, no slot, survives a restart
    second = await ask_office(office, "/reminders", f"{card.title}, again", text="second")
    return f"Reminded twice: {first.number}, {second.number}."

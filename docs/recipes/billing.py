"""What the recipes ask of an outside system: commands, and nothing else. Yours will speak to another one."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from typing import Literal

import httpx
from pydantic import BaseModel

from hermes.durable import command, current_step


class Batch(BaseModel):
    receipt: str
    state: Literal["working", "settled", "unknown"]


def is_final(batch: Batch) -> bool:
    return batch.state != "working"


@command(timeout=timedelta(seconds=30))
def send_batch(about: str) -> str:
    """The system begins one batch for each key, however often it is asked."""
    answer = _billing().post("/batches", json={"about": about}, headers=_key())
    answer.raise_for_status()  # a 503 is raised, and tried again under the same key
    return str(answer.json()["receipt"])


@command(effect="none", retries=2, timeout=timedelta(seconds=10))
def ask_batch(receipt: str) -> Batch:
    """A read: few retries, since the poll asks again anyway."""
    answer = _billing().get(f"/batches/{receipt}")
    if answer.status_code == 404:
        return Batch(receipt=receipt, state="unknown")  # an answer, and a final one: no time will cure that
    answer.raise_for_status()
    return Batch(receipt=receipt, state=answer.json()["state"])


def _billing() -> httpx.Client:
    return _client(os.environ.get("BILLING_URL", "http://127.0.0.1:8999"))


@cache
def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url)  # one for the process: it keeps its connections, and threads may share it


def _key() -> dict[str, str]:
    return {"Idempotency-Key": current_step().idempotency_key}

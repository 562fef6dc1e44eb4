"""`POST /api/v1/fire/{name}/{instance_id}` as a program meets it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


def test_an_event_goes_to_the_run_that_waits_and_says_so(served: Any, key: str) -> None:
    run_id = served.start(key).json()["id"]
    served.work()
    fired = served.ask("POST", "/fire/PAID/42", key, {"amount": 7})
    assert fired.status_code == 202
    told = fired.json()
    assert isinstance(told.pop("event"), int)
    assert told == {"status": "delivered", "run": {"id": run_id, "key": "order-42"}, "duplicate": False}
    served.work()
    assert served.run(run_id).result == 7


def test_an_event_that_nobody_waits_for_is_kept_and_taken_by_the_wait_that_comes(served: Any, key: str) -> None:
    fired = served.ask("POST", "/fire/PAID/42", key, {"amount": 8}).json()
    assert fired["status"] == "kept"
    assert "run" not in fired
    left = datetime.fromisoformat(fired["kept_until"]) - served.now()
    assert timedelta(days=30) - timedelta(minutes=1) < left <= timedelta(days=30)
    run_id = served.start(key).json()["id"]
    served.work()
    assert served.run(run_id).result == 8

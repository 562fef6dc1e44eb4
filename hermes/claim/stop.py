"""A card that is not ours any more: its run is asked to stop."""

from __future__ import annotations

from hermes.claim.work import Work
from hermes.model.claim import ClaimState
from hermes.model.run import Run


def stop(work: Work, run: Run, why: str) -> None:
    """When the run has stopped, `finish` leaves the card as it then stands."""
    with work.store.write() as uow:
        uow.runs.cancel(run.id, why)
        uow.places.release_place(run.id)
        uow.claims.let_go(
            work.hold, due_at=uow.now, state=ClaimState.claimed, shown={}, note=why, verify=False, failures=0
        )
    work.log.info("the card is not ours any more", run_id=run.id, reason=why)

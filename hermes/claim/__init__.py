"""The card claim protocol. Start with PROTOCOL.md beside this file."""

from hermes.claim.desk import Desk
from hermes.claim.work import ClaimingPoll

__all__ = ["ClaimingPoll", "Desk"]

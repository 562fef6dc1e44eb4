"""Effects: outside changes that are runs of a single command, each under its dedupe key, so that whoever asks for one
twice gets the one that is there. Queue, retries, leases, timeline and dead letters are those of every run."""

from hermes.effects.dedupe import dedupe_key
from hermes.effects.effect import Effect, enqueue, perform

__all__ = ["Effect", "dedupe_key", "enqueue", "perform"]

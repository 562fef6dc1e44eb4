"""What comes of a person's wish that a step be tried again."""

from __future__ import annotations

from enum import StrEnum


class StepRetried(StrEnum):
    """Whatever is not `granted` has to be rolled back: part of it may have been said."""

    granted = "granted"
    unknown_run = "unknown_run"
    unknown_step = "unknown_step"
    live = "live"
    """The run has not stopped: it tries by itself, or goes on already."""
    over = "over"
    """The run has come to its end and does not go on."""
    forgotten = "forgotten"
    """The run's steps are no longer kept."""
    done = "done"
    """The step has its result, for ever."""
    final = "final"
    """A later step was begun after this one had failed: the function has gone on from the failure."""
    no_command = "no_command"
    """Neither a command nor a run that was started: there is nothing to be tried."""
    child_over = "child_over"
    """The run that the step started does not go on."""
    in_doubt = "in_doubt"
    """Another step of the run may have happened: a person says whether it did."""

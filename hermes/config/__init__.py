"""What the operator wrote in `config/`: read, checked whole, versioned, reloaded."""

from hermes.config.configuration import Check, Configuration, Models, PollConfig, Reading, Report
from hermes.config.loader import load, read
from hermes.config.problems import ConfigProblems, Problem
from hermes.config.watcher import ConfigWatcher, Reload

__all__ = [
    "Check",
    "ConfigProblems",
    "ConfigWatcher",
    "Configuration",
    "Models",
    "PollConfig",
    "Problem",
    "Reading",
    "Reload",
    "Report",
    "load",
    "read",
]

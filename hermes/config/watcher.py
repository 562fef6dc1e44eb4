"""Reads the folder again when something in it changed. A broken edit keeps the last good version of what it broke."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.config.configuration import Configuration, Models
from hermes.config.loader import HERMES_FILE, POLLS_FOLDER, read
from hermes.config.problems import Problem


@dataclass(frozen=True, slots=True)
class Reload:
    """What a change of the files came to."""

    configuration: Configuration
    """The one to use now: new where it is good, the last good one elsewhere."""
    added: tuple[str, ...]
    edited: tuple[str, ...]
    removed: tuple[str, ...]
    """Polls, by id."""
    kept: tuple[str, ...]
    """Polls whose file is broken and that go on as they were."""
    waiting: tuple[str, ...]
    """Polls of a board that this process was not started with: as they were, or not there, until a restart."""
    restart_needed: bool
    """`hermes.yaml` is not what this process was started with: connections, boards, workers, data."""
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        parts = [f"{what} {', '.join(names)}" for what, names in self._named() if names]
        if self.restart_needed:
            parts.append(f"{HERMES_FILE} changed")
        return "; ".join(parts) or "nothing changed"

    def _named(self) -> list[tuple[str, tuple[str, ...]]]:
        return [
            ("added", self.added),
            ("edited", self.edited),
            ("removed", self.removed),
            ("broken, last good version kept:", self.kept),
            ("waiting for a restart:", self.waiting),
        ]


class ConfigWatcher:
    """`current` is always a good configuration; starts from one that was loaded."""

    def __init__(
        self, folder: Path, models: Models, current: Configuration, *, environ: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._models = models
        self._environ = environ
        self._mutex = threading.Lock()
        self._started = current
        self.current = current
        self.problems: tuple[Problem, ...] = ()
        """Of the files as they are now; empty when all of them are in use."""
        self._stamp = self._stamps()
        self._content = self._contents()
        self._vanished: dict[Path, tuple[int, int, int]] | None = None

    def tick(self) -> Reload | None:
        """None when nothing changed. Cheap: looks at names, times and sizes first, at contents only then."""
        with self._mutex:
            stamp = self._stamps()
            if stamp == self._stamp:
                return None
            if self._stamp.keys() - stamp.keys() and stamp != self._vanished:
                # Editors and checkouts take a file away for a moment: a poll is removed at the second look.
                self._vanished = stamp
                return None
            content = self._contents()
            self._stamp = stamp
            if content == self._content:
                return None
            self._content = content
            return self._reload()

    def _reload(self) -> Reload:
        reading = read(self._folder, self._models, environ=self._environ)
        before = self.current
        self.problems = reading.problems
        new = reading.configuration
        kept = tuple(sorted(reading.broken_polls & set(before.polls)))
        if new is None or any(before.polls[name].board not in (None, *new.boards) for name in kept):
            # Polls are read against hermes.yaml: without it, or when it takes away a board that a poll is kept for,
            # nothing can be judged, so nothing changes.
            everything = tuple(sorted(before.polls))
            return Reload(before, (), (), (), everything, (), restart_needed=False, problems=reading.problems)
        waiting = tuple(name for name, poll in new.polls.items() if poll.board not in (None, *self._started.boards))
        polls = {name: poll for name, poll in new.polls.items() if name not in waiting}
        polls |= {name: before.polls[name] for name in (*kept, *waiting) if name in before.polls}
        after = replace(new, polls=dict(sorted(polls.items())), secrets=new.secrets | before.secrets)
        self.current = after
        edited = sorted(
            name
            for name in set(before.polls) & set(after.polls)
            if before.polls[name].definition_version != after.polls[name].definition_version
        )
        return Reload(
            after,
            added=tuple(sorted(set(after.polls) - set(before.polls))),
            edited=tuple(edited),
            removed=tuple(sorted(set(before.polls) - set(after.polls))),
            kept=kept,
            waiting=waiting,
            restart_needed=_process_part(self._started) != _process_part(after),
            problems=reading.problems,
        )

    def _paths(self) -> list[Path]:
        polls = self._folder / POLLS_FOLDER
        found = sorted(polls.iterdir()) if polls.is_dir() else []
        return [self._folder / HERMES_FILE, *(path for path in found if path.suffix.lower() in (".yaml", ".yml"))]

    def _stamps(self) -> dict[Path, tuple[int, int, int]]:
        stamps = {}
        for path in self._paths():
            try:
                status = os.stat(path)
            except OSError:
                continue
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps

    def _contents(self) -> dict[Path, str]:
        contents = {}
        for path in self._paths():
            try:
                contents[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError:
                continue
        return contents


def _process_part(configuration: Configuration) -> Configuration:
    return replace(configuration, polls={}, secrets=frozenset())

"""The main job, shown: `hermes-poll demo` takes a board of cards through real processes and a service that fails."""

from __future__ import annotations

from pathlib import Path


def run_demo(data: Path = Path("demo-data"), *, port: int = 8450, fresh: bool = False, as_json: bool = False) -> int:
    """The exit code: 0 as expected, 1 not, 2 could not start, 130 interrupted. `port` is the board's; the office has
    the next one. `fresh` forgets what an earlier demo left in `data`."""
    from hermes.demo.demo import run  # the office's process imports this package too, and needs none of it

    return run(data, port=port, fresh=fresh, as_json=as_json)

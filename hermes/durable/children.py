"""Starting other durable functions as runs of their own."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ParamSpec, TypeVar

from hermes.durable.context import driving, only_in_a_function
from hermes.durable.function import Function
from hermes.durable.outside import Called
from hermes.model.key import user_key
from hermes.model.run import NewRun, RunKind

P = ParamSpec("P")
R = TypeVar("R")


def start(function: Function[P, R], key: str, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[R]:
    """A run of `function` under `key`, started with this run's next step; a run that has the key already is joined.
    Await it for its result, or do not: it goes on by itself. Its failure, its refusal and its being cancelled are
    raised at the await, and a redelivery or a resume of this run resumes it; if it needs a person, so does this run.

    The key must be the same at every replay: make it of what the work is about. Outside a run the function is called
    when it is awaited.
    """
    delivery = driving.get()
    if delivery is None:
        only_in_a_function("start")
        return Called(lambda: function(*args, **kwargs))
    parent = delivery.run
    new = NewRun(
        key=user_key(parent.namespace, key),
        kind=RunKind.function,
        function=function.name,
        args=function.arguments.to_json(args, kwargs, delivery.settings.max_bytes),
        priority=parent.priority,
        poll_id=parent.poll_id,
        condition_version=parent.condition_version,
        parent_run_id=parent.id,
        namespace=parent.namespace,
    )
    return delivery.child(new, function.ending)

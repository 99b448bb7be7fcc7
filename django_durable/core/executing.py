"""Whether this code is part of a workflow's body: what may not block there can ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

_executing: ContextVar[UUID | None] = ContextVar("django_durable_executing", default=None)
enter_run = _executing.set
leave_run = _executing.reset


def is_executing() -> bool:
    """True in the body of a workflow and in its steps."""
    return _executing.get() is not None


@contextmanager
def outside_run() -> Iterator[None]:
    """For what happens within a run's attempt and is no part of it: receivers of signals that tell of it."""
    token = _executing.set(None)
    try:
        yield
    finally:
        _executing.reset(token)

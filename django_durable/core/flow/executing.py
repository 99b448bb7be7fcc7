"""Whether this code is part of a workflow's body, and of which line of it: for what is called there without ``ctx``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .flow import Flow

_executing: ContextVar[Flow | None] = ContextVar("django_durable_executing", default=None)
enter_run = _executing.set
leave_run = _executing.reset

_line: ContextVar[Flow | None] = ContextVar("django_durable_line", default=None)
executing_line = _line.get
"""The part whose code this is; None in the function's own line, and outside of a run."""
enter_line = _line.set
leave_line = _line.reset


def executing_flow() -> Flow | None:
    """The flow of the line whose code this is; None outside of a run."""
    return _line.get() or _executing.get()


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

"""The step that is running right here: what a step function, which gets no ``ctx``, can know of itself."""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID

from ...exceptions import ContextMisuse, RunCancelled
from .. import clock
from .lease import Lease


def stable_key(run_id: UUID, path: str, name: str) -> str:
    """32 hex digits that are the same in every attempt and replay of ``path`` in this run, and nowhere else."""
    return hashlib.sha256(f"{run_id}\n{path}\n{name}".encode()).hexdigest()[:32]


@dataclass(slots=True, eq=False)
class CurrentStep:
    """``deadline`` is local monotonic seconds or None; ``seconds_left`` is what to pass on to a client."""

    run_id: UUID
    path: str
    attempt: int
    lease: Lease
    deadline: float | None = None
    heeds_cancel: bool = True
    """False for a compensation: that the run was cancelled is why it runs."""
    started: int = 0
    """How many runs this attempt of the step has enqueued: part of their idempotency keys."""

    @property
    def cancelled(self) -> bool:
        """Whether the run has been asked to stop, as far as this process has heard."""
        return self.lease.cancel_requested and self.heeds_cancel

    @property
    def seconds_left(self) -> float | None:
        return None if self.deadline is None else self.deadline - clock.monotonic()

    def raise_if_cancelled(self) -> None:
        """Raise RunCancelled where the run has been asked to stop, so that it ends here and now."""
        if self.cancelled:
            raise RunCancelled(self.run_id)

    def idempotency_key(self, name: str = "") -> str:
        """A key for outside systems: the same in every attempt of this step, different for every other step."""
        return stable_key(self.run_id, self.path, name)

    def next_start_key(self) -> str:
        """The idempotency key of the next run that this step enqueues."""
        self.started += 1
        return f"step:{self.run_id}:{self.path}:{self.started}"


_current: ContextVar[CurrentStep | None] = ContextVar("django_durable_current_step", default=None)
enter_step = _current.set
leave_step = _current.reset


running_step = _current.get
"""The step that this code is part of, or None."""


def current_step() -> CurrentStep:
    """The step that this code is part of. Raises ContextMisuse outside of one."""
    step = _current.get()
    if step is None:
        raise ContextMisuse("current_step() works inside a function that a durable step runs.")
    return step

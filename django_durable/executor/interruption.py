"""Who ends an ``async def`` attempt from outside, told apart from its own code, which cancels tasks too: by time-outs
and task groups."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar
from uuid import UUID

from ..core.flow.executing import executing_flow

T_co = TypeVar("T_co", covariant=True)


class Interruption:
    """Whether the run is to be handed back: the task that waits for its attempt was cancelled (``waiting``; None: none
    waits), or the attempt's own task by the code of another run, as who cancels all tasks of the loop does."""

    __slots__ = ("_is_by_stranger", "_waiting")

    def __init__(self, waiting: asyncio.Task[Any] | None = None) -> None:
        self._waiting = waiting
        self._is_by_stranger = False

    @property
    def has_come(self) -> bool:
        # As ``is_cancelled`` says, which every ``ctx`` call would call.
        return self._is_by_stranger or (self._waiting is not None and self._waiting.cancelling() > 0)

    def come(self) -> None:
        self._is_by_stranger = True


class AttemptTask(asyncio.Task[T_co]):
    """Runs the code of one run."""

    run_id: UUID
    interruption: Interruption

    def cancel(self, msg: Any | None = None) -> bool:
        flow = executing_flow()
        if flow is not None and flow.run.run_id != self.run_id:
            self.interruption.come()
        return super().cancel(msg)


def is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Whether somebody cancelled ``task``, which is not the same as a CancelledError that its code raised."""
    return task is not None and task.cancelling() > 0

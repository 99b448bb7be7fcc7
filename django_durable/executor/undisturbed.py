"""Waiting for what must come to its end: a cancellation of the waiting task is raised there once that has happened.

``asyncio.shield`` would let go of it at once, and cost more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class UndisturbedFuture(asyncio.Future[T]):
    """Cannot be cancelled. Who is cancelled while awaiting it gets CancelledError when it is done, and not before."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class UndisturbedTask(asyncio.Task[T_co]):
    """Likewise, of a coroutine."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


def undisturbed(work: Coroutine[Any, Any, T]) -> UndisturbedTask[T]:
    """``work`` on the running loop."""
    return UndisturbedTask(work, loop=asyncio.get_running_loop())

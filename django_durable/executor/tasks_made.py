"""Whether tasks are made on an event loop: who ends and has made none waits for none."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


class TaskFactory:
    """As a loop makes tasks without one, and counted. (Python 3.13.0 to 3.13.2 call each "None" that is given no name,
    where there is a factory.)"""

    def __init__(self) -> None:
        self.made = 0

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        self.made += 1
        return asyncio.Task(coro, loop=loop, **options)


def tasks_made() -> int | None:
    """How many tasks have been made so far on the running loop, by whomever; None where nobody counts them there."""
    factory = asyncio.get_running_loop().get_task_factory()
    return factory.made if isinstance(factory, TaskFactory) else None

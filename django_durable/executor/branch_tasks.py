"""The branches of an ``async def`` workflow's attempt: a task for each, on the loop that the attempt runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from ..core.flow.effects import Ended, Performed, Raised, Spawn
from ..core.flow.flow import Flow
from ..core.unwinding import Unwind


class Line(Protocol):
    """What runs the code of a branch."""

    async def enter(self, body: Callable[[Any], Any]) -> Performed: ...

    def interrupt(self, *, at_once: bool) -> bool:
        """Nobody needs it any more. Whether its task is to be cancelled: a step that is under way in there is over
        first, or ``at_once`` is cancelled too.
        """


@dataclass(slots=True, eq=False)
class _Running:
    line: Line
    task: asyncio.Task[None] = field(init=False)
    has_begun: bool = False


class BranchTasks:
    """One for all lines of an attempt: a branch that lost a race is waited for by another line than has begun it."""

    def __init__(self) -> None:
        self._running: dict[Flow, _Running] = {}
        """Branches whose code is not over."""
        self._untold: dict[Flow, Ended] = {}
        """Those that have ended and that nobody has asked after, in the order in which they did."""

    @cached_property
    def _changed(self) -> asyncio.Event:
        # Most attempts have no branches.
        return asyncio.Event()

    @property
    def are_running(self) -> bool:
        return bool(self._running)

    def begin(self, spawn: Spawn, line: Line) -> None:
        self._running[spawn.branch] = running = _Running(line)
        running.task = asyncio.create_task(self._run(spawn, running))

    async def _run(self, spawn: Spawn, running: _Running) -> None:
        performed: Performed = Raised(Unwind(), 0.0)
        running.has_begun = True
        try:
            # Where nobody needs it any more, nothing of it begins.
            if not spawn.branch.is_stopped:
                performed = await running.line.enter(spawn.body)
        except BaseException as error:
            performed = Raised(error, 0.0)
        finally:
            del self._running[spawn.branch]
            self._untold[spawn.branch] = Ended(spawn.branch, performed)
            self._changed.set()
            self._changed = asyncio.Event()

    def interrupt(self, branches: Collection[Flow], *, at_once: bool) -> None:
        """End those that are running; ``at_once``: in the middle of a step too."""
        for branch in branches:
            running = self._running.get(branch)
            # A task that has not begun would never come to tell of its end. One that waits for a thread goes on
            # waiting, and is interrupted then.
            if running is not None and running.line.interrupt(at_once=at_once) and running.has_begun:
                running.task.cancel()

    async def take(self, branches: Collection[Flow], seconds: float | None) -> Ended | None:
        """The first of these that has ended, once one has; None after ``seconds`` (None: no limit)."""
        if (ended := self._take(branches)) is not None or seconds == 0:
            return ended
        try:
            async with asyncio.timeout(seconds):
                while (ended := self._take(branches)) is None:
                    await self._changed.wait()
                return ended
        except TimeoutError:
            return None

    def _take(self, branches: Collection[Flow]) -> Ended | None:
        first = next((branch for branch in self._untold if branch in branches), None)
        return None if first is None else self._untold.pop(first)

    async def end(self, branches: Collection[Flow] | None = None, *, at_once: bool) -> None:
        """Nothing of these acts any more when this returns; of all that are running where none are named.

        A step that is under way in a branch that lost comes to its end first, but not ``at_once``.
        """
        left = self._among(branches)
        for branch in left:
            has_lost = branch.is_stopped
            branch.stop()
            self.interrupt([branch], at_once=at_once or not has_lost)
        while left:
            try:
                await asyncio.wait([self._running[branch].task for branch in left])
            except asyncio.CancelledError:
                # Who cancels this task has to wait: the lease is held for as long as the run's code is running.
                self.interrupt(left, at_once=True)
            left = self._among(branches)

    def _among(self, branches: Collection[Flow] | None) -> list[Flow]:
        return [branch for branch in self._running if branches is None or branch in branches]

"""Executes what a flow decides, for ``async def`` workflows: on the event loop, waiting for nobody else."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..core.async_context import AsyncContext
from ..core.flow.effects import (
    LAST,
    Answer,
    AwaitBranch,
    Decisions,
    Effect,
    Ended,
    Enter,
    Perform,
    Performed,
    Persist,
    Raised,
    Refresh,
    Returned,
    Spawn,
    Stop,
)
from ..core.flow.executing import enter_line, leave_line
from ..core.flow.flow import Flow
from ..core.flow.parts import absorb
from ..core.flow.unawaited import Unawaited
from .async_calls import Calls
from .async_steps import AsyncSteps
from .branch_tasks import BranchTasks
from .commit import Commit, heed
from .interruption import Interruption
from .misuse import not_awaited
from .tails import Tails


class AsyncDriver:
    """``await drive(decisions)`` runs a step kind's generator to its value. One for each line of execution, whose calls
    are made one at a time, in whichever task.

    ``interruption``: that of the attempt. ``parent`` is the line that has begun this one, in the task of its own call
    or ``beside`` itself.
    """

    def __init__(
        self,
        flow: Flow,
        commit: Commit,
        interruption: Interruption,
        parent: AsyncDriver | None = None,
        *,
        is_beside: bool = False,
    ) -> None:
        self._flow = flow
        self._commit = commit
        self._parent = parent
        self._interruption = interruption
        self._calls: Calls = Calls(flow, interruption, parent._calls if parent is not None and not is_beside else None)
        self._steps = AsyncSteps(flow, commit, self._calls)
        self.tails: Tails | None = None
        """As that of ``SyncDriver``."""
        self.unawaited = Unawaited()
        self._tasks: BranchTasks = parent._tasks if parent is not None else BranchTasks()
        self._begun: dict[Flow, None] = {}
        """Branches of this line, as long as nobody has been told of their ends; in the order of their beginnings."""

    @property
    def is_interrupted(self) -> bool:
        """Whether somebody outside ends the attempt."""
        return self._calls.are_interrupted

    def interrupt(self, *, at_once: bool) -> bool:
        return self._calls.interrupt(at_once=at_once)

    async def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """What ``body`` returns. Raises ContextMisuse where a call that it made is under way when it ends, or was not
        begun, and CancelledError where the attempt is interrupted, whatever the body made of that.
        """
        self._calls.enter()
        try:
            value = await body()
        finally:
            forgotten = await self._end()
        # What raises, or unwinds, may do so before it comes to await what it has made: only a return has forgotten it.
        if forgotten is not None and self._flow.outcome is None:
            self._flow.refuse(not_awaited(forgotten))
        return value

    async def _end(self) -> str | None:
        """The name of a call that was made and is not begun."""
        try:
            await self._calls.settle(self._flow)
        finally:
            forgotten = self.unawaited.end()
            await self._end_branches()
        if self._calls.are_unwanted:
            # Code that goes on after its cancellation has not come to an end that counts: a turn of a loop, say.
            raise asyncio.CancelledError
        return forgotten

    async def _end_branches(self) -> None:
        """Branches that have lost a race are left to the lines around; the function's own line waits for all."""
        is_root = self._parent is None
        if not (self._begun or (is_root and self._tasks.are_running)):
            return
        at_once = self._calls.are_hurried
        with self._calls.finishing():
            await self._tasks.end(None if is_root else self._flow.losers.others(self._begun), at_once=at_once)
        # Where the call that has begun them was ended in the midst of it, it does not take over what they have done: an
        # attempt that failed has happened all the same.
        for branch in self._flow.losers.others(self._begun):
            absorb(self._flow, branch)

    async def __call__(self, decisions: Decisions[Any]) -> Any:
        # In one coroutine: to make others, and to go on through them, takes a tenth of a step.
        calls, flow, commit = self._calls, self._flow, self._commit
        answer: Any = None
        calls.begin()
        try:
            while True:
                effect = decisions.send(answer)
                if isinstance(effect, Perform):
                    outer = calls.begin_to_finish()
                    try:
                        answer = await self._steps.perform(effect)
                    finally:
                        calls.end_to_finish(outer)
                elif isinstance(effect, Persist):
                    answer = None
                    if calls.is_left or (effect is LAST and self.tails is not None and self.tails.may_wait(flow, 2)):
                        # What a call that was left under way has done goes with the outcome, too.
                        continue
                    if write := flow.take_pending():
                        heed(flow, await commit.awrite(flow.lease, write))
                else:
                    answer = await self._act(effect)
        except StopIteration as stop:
            return stop.value
        except asyncio.CancelledError:
            calls.is_cut_short = True
            raise
        finally:
            calls.end(flow)

    async def _act(self, effect: Effect) -> Answer:
        match effect:
            case Enter(part, body):
                return await self._enter(part, body)
            case Spawn(branch):
                if not self._begun:
                    await self._steps.refuse_open_transaction()
                self._begun[branch] = None
                self._tasks.begin(effect, AsyncDriver(branch, self._commit, self._interruption, self, is_beside=True))
            case AwaitBranch(branches, seconds):
                return await self._await_branch(branches, seconds)
            case Stop(branches, at_once):
                self._tasks.interrupt(branches, at_once=at_once)
            case Refresh():
                await self._commit.arefresh(self._flow.journal.inbox, self._flow.lease)
        return None

    async def _enter(self, part: Flow, body: Callable[[Any], Any]) -> Performed:
        try:
            return await AsyncDriver(part, self._commit, self._interruption, self).enter(body)
        except BaseException:
            # As with branches: the call that has entered it ends here too.
            absorb(self._flow, part)
            raise

    async def enter(self, body: Callable[[Any], Any]) -> Performed:
        """Run the code of a part, which is this line, in the present task."""
        began = time.perf_counter()
        token = enter_line(self._flow)
        try:
            value = await self.run(lambda: _awaited(body(AsyncContext(self._flow, self))))
        except BaseException as error:
            if self.is_interrupted:
                raise
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_line(token)
        return Returned(value, time.perf_counter() - began)

    async def _await_branch(self, branches: Sequence[Flow], seconds: float | None) -> Ended | None:
        ended = await self._tasks.take(branches, seconds)
        if ended is not None:
            self._begun.pop(ended.branch, None)
        return ended


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value

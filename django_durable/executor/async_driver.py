"""Executes what a flow decides, for ``async def`` workflows: on the event loop, waiting for nobody else."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from asgiref.sync import sync_to_async

from ..core.async_context import AsyncContext
from ..core.effects import (
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
from ..core.executing import enter_line, leave_line
from ..core.flow import Flow
from ..core.outcomes import Suspended
from ..core.stepping import enter_step, leave_step
from ..core.unwinding import Unwind
from .atomic import perform_atomically, refuse_coroutine
from .commit import Commit, heed
from .misuse import cut_short, left_under_way, refuse_other_thread, refuse_outer_context, side_by_side
from .step_call import call_plain, in_time, step_of
from .transactions import drop_broken_connections, leftover_transactions, open_transactions
from .undisturbed import undisturbed

T = TypeVar("T")


class AsyncDriver:
    """``await drive(decisions)`` runs a step kind's generator to its value. One for each line of execution, whose calls
    are made one at a time, in whichever task.
    """

    def __init__(
        self,
        flow: Flow,
        commit: Commit,
        attempt: asyncio.Task[Any] | None = None,
        around: AsyncDriver | None = None,
    ) -> None:
        self._flow = flow
        self._commit = commit
        self._thread = threading.get_ident()
        self._attempt = attempt or asyncio.current_task()
        """Whoever cancels this one is the worker."""
        self._main = asyncio.current_task()
        """What the workflow's function runs in: its own code may cancel this one."""
        self._task, self._name = self._main, ""
        """Of the latest call: the task that it was made in, and its name."""
        self._is_under_way = False
        self._is_in_thread = False
        self._is_cut_short = False
        """Whether the latest call was cancelled while it was under way."""
        self._around = around
        """The line whose call runs this one in its own task, and which ends or is interrupted with it."""
        self._has_begun = False
        self._over: asyncio.Future[None] | None = None
        """Set once the line is ending: done when the call that was left under way is over."""
        self._is_interrupted = False
        """Whether whoever spawned this line has cancelled it: a branch that lost."""
        self._branches: dict[Flow, tuple[asyncio.Task[None], AsyncDriver]] = {}
        """Those whose code is not over."""
        self._ended: asyncio.Queue[Ended] = asyncio.Queue()
        self._told: deque[Ended] = deque()
        flow.before_call = self._refuse

    @property
    def is_interrupted(self) -> bool:
        """Whether the worker has cancelled the attempt."""
        return _is_cancelled(self._attempt)

    async def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """What ``body`` returns. Raises ContextMisuse where a call that it made is under way when it ends, and
        CancelledError where the worker has cancelled the attempt, whatever the body made of that.
        """
        self._main = self._task = asyncio.current_task()
        try:
            return await body()
        finally:
            # A task that was created and not awaited gets its first turn: what it calls is then known.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            if self._is_under_way and self._task is not self._main:
                await self._end_call()
            await self._end_branches()
            if self.is_interrupted:
                raise asyncio.CancelledError

    async def _end_call(self) -> None:
        """Cancel the call that is under way and wait for its end: nothing of it acts once the attempt is over."""
        task, name = self._task, self._name
        assert task is not None  # noqa: S101  (for the type checker)
        self._over = asyncio.get_running_loop().create_future()
        # A thread cannot be cancelled: only the waiting for it could be.
        if not self._is_in_thread:
            task.cancel()
        while not self._over.done():
            # Who cancels this task, too, has to wait: the lease is held for as long as the run's code is running.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._over])
        task.cancel()
        if not self.is_interrupted:
            self._flow.refuse(left_under_way(name))

    async def _end_branches(self) -> None:
        """Nothing of a branch acts once its line is over."""
        for branch in self._branches:
            branch.stop()
        self._interrupt(list(self._branches))
        while self._branches:
            # Who cancels this task has to wait: the lease is held for as long as the run's code is running.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task for task, _ in self._branches.values()])

    def _refuse(self, name: str) -> None:
        refuse_other_thread(self._thread, name)
        if self._is_ending:
            raise Unwind
        refuse_outer_context(self._flow, name, self._name)
        task, flow = asyncio.current_task(), self._flow
        # A call that suspended the run is over at once. Another task that goes on regardless was meant to run beside
        # it; the main task and the one that was suspended only unwind.
        is_beside = isinstance(flow.outcome, Suspended) and task is not self._main and task is not self._task
        if self._is_under_way or is_beside:
            flow.refuse(side_by_side(name, self._name))
        if flow.outcome is None:
            self._task, self._name = task, name

    @property
    def _begins_nothing(self) -> bool:
        """Whether the call under way is to be left, once what it has begun is over."""
        is_own = self._over is not None or self._is_cut_short
        return is_own or (self._around is not None and self._around._begins_nothing)

    @property
    def _is_ending(self) -> bool:
        """Whether the line is to end here, so that what is under way is cancelled by us."""
        is_own = self._over is not None or self._is_interrupted or self.is_interrupted
        return is_own or (self._around is not None and self._around._is_ending)

    async def __call__(self, decisions: Decisions[Any]) -> Any:
        self._is_under_way, self._is_cut_short = True, False
        try:
            return await self._execute(decisions)
        except asyncio.CancelledError:
            self._is_cut_short = True
            raise
        finally:
            self._is_under_way = False
            if self._over is not None:
                self._over.set_result(None)
            if self._is_cut_short:
                self._leave()

    def _leave(self) -> NoReturn:
        """Leave a call that was cancelled: what it has done is recorded, but it does not return."""
        if self._is_ending:
            raise asyncio.CancelledError
        # A replay finds the call done, is not cancelled there, and would go another way than this execution.
        self._flow.refuse(cut_short(self._name))

    async def _execute(self, decisions: Decisions[Any]) -> Any:
        answer: Answer = None
        try:
            while True:
                effect = decisions.send(answer)
                answer = await self._act(effect)
        except StopIteration as stop:
            return stop.value

    async def _act(self, effect: Effect) -> Answer:
        match effect:
            case Perform():
                return await self._perform(effect)
            case Persist():
                await self.persist()
            case Enter(part, body):
                return await AsyncDriver(part, self._commit, self._attempt, self).enter(body)
            case Spawn():
                self._spawn(effect)
            case AwaitBranch(branches, seconds):
                return await self._await_branch(branches, seconds)
            case Stop(branches):
                self._interrupt(branches)
            case Refresh():
                await self._commit.arefresh(self._flow.journal.inbox, self._flow.lease)
        return None

    async def persist(self) -> None:
        """Make what is pending durable; unwinds where the lease is lost."""
        # What a call that was left under way has done goes with the outcome.
        if self._over is None and (write := self._flow.take_pending()):
            heed(self._flow, await self._commit.awrite(self._flow.lease, write))

    # --- parts and branches --------------------------------------------------------------------

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

    def _spawn(self, spawn: Spawn) -> None:
        driver = AsyncDriver(spawn.branch, self._commit, self._attempt)
        self._branches[spawn.branch] = asyncio.create_task(self._run_branch(spawn, driver)), driver

    async def _run_branch(self, spawn: Spawn, driver: AsyncDriver) -> None:
        performed: Performed = Raised(Unwind(), 0.0)
        driver._has_begun = True
        try:
            # Where nobody needs it any more, nothing of it begins.
            if not spawn.branch.is_stopped:
                performed = await driver.enter(spawn.body)
        except BaseException as error:
            performed = Raised(error, 0.0)
        finally:
            del self._branches[spawn.branch]
            self._ended.put_nowait(Ended(spawn.branch, performed))

    def _interrupt(self, branches: Sequence[Flow]) -> None:
        for branch in branches:
            if branch in self._branches:
                task, driver = self._branches[branch]
                driver._is_interrupted = True
                # A task that has not begun would never come to tell of its end. One that waits for a thread goes on
                # waiting, and is interrupted then.
                if driver._has_begun:
                    task.cancel()

    async def _await_branch(self, branches: Sequence[Flow], seconds: float | None) -> Ended | None:
        for told in self._told:
            if told.branch in branches:
                self._told.remove(told)
                return told
        try:
            async with asyncio.timeout(seconds):
                while True:
                    ended = await self._ended.get()
                    if ended.branch in branches:
                        return ended
                    self._told.append(ended)
        except TimeoutError:
            return None

    # --- steps ---------------------------------------------------------------------------------

    async def _perform(self, perform: Perform) -> Performed:
        if self._begins_nothing:
            raise Unwind
        if perform.settle is not None:
            refuse_coroutine(perform)
            return await self._in_thread(perform_atomically, self._flow, perform, self._commit)
        began = time.perf_counter()
        token = enter_step(step_of(self._flow, perform))
        try:
            value = await self._call(perform)
        except Unwind:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled(asyncio.current_task()):
                raise
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_step(token)
        return Returned(value, time.perf_counter() - began)

    async def _call(self, perform: Perform) -> Any:
        if inspect.iscoroutinefunction(perform.fn):
            return await in_time(perform.fn(*perform.args), perform)
        # A plain function may block or use the ORM: it runs in the run's own thread, not on the loop.
        value, error = await self._in_thread(_call_plain, perform)
        if error is not None:
            raise error
        if not inspect.isawaitable(value):
            return value
        if self._begins_nothing:
            if inspect.iscoroutine(value):
                value.close()
            raise Unwind
        return await in_time(value, perform)

    async def _in_thread(self, fn: Callable[..., T], *args: Any) -> T:
        self._is_in_thread = True
        work = undisturbed(sync_to_async(fn, thread_sensitive=True)(*args))
        try:
            return await work
        except asyncio.CancelledError:
            # Only now: a thread cannot be cancelled, and what it has done is recorded before the call is left.
            self._is_cut_short = True
            return work.result()
        finally:
            self._is_in_thread = False


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _call_plain(perform: Perform) -> tuple[Any, BaseException | None]:
    # The error comes back as a value: a future does not take StopIteration, and SystemExit would end the thread.
    outer = open_transactions()
    try:
        value = call_plain(perform)
    except BaseException as error:
        leftover_transactions(outer)
        drop_broken_connections()
        return None, error
    return value, leftover_transactions(outer)


def _is_cancelled(task: asyncio.Task[Any] | None) -> bool:
    """Whether somebody cancelled ``task``, which is not the same as a CancelledError that its code raised."""
    return task is not None and task.cancelling() > 0

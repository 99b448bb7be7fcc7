"""Executes what a flow decides, for ``async def`` workflows: on the event loop, waiting for nobody else."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

from ..core.context import Decisions
from ..core.effects import Perform, Performed, Raised, Returned
from ..core.flow import Flow
from ..core.outcomes import Suspended
from ..core.stepping import enter_step, leave_step
from ..core.unwinding import Unwind
from .atomic import perform_atomically, refuse_coroutine
from .commit import Commit, heed
from .misuse import left_under_way, refuse_other_thread, side_by_side
from .step_call import call_plain, in_time, step_of
from .transactions import drop_broken_connections, leftover_transactions, open_transactions

T = TypeVar("T")


class AsyncDriver:
    """``await drive(decisions)`` runs a step kind's generator to its value. One at a time, in whichever task."""

    def __init__(self, flow: Flow, commit: Commit) -> None:
        self._flow = flow
        self._commit = commit
        self._thread = threading.get_ident()
        self._main = asyncio.current_task()
        self._task, self._name = self._main, ""
        """Of the latest call: the task that it was made in, and its name."""
        self._is_under_way = False
        self._is_in_thread = False
        self._over: asyncio.Future[None] | None = None
        """Set once the attempt is ending: done when the call that was left under way is over."""
        flow.before_call = self._refuse

    async def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """What ``body`` returns. Raises ContextMisuse where a call that it made is under way when it ends."""
        try:
            return await body()
        finally:
            # A task that was created and not awaited gets its first turn: what it calls is then known.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            if self._is_under_way and self._task is not self._main:
                await self._end_call()

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
        if is_cancelled():
            raise asyncio.CancelledError
        self._flow.refuse(left_under_way(name))

    def _refuse(self, name: str) -> None:
        refuse_other_thread(self._thread, name)
        if self._over is not None:
            raise Unwind
        task, flow = asyncio.current_task(), self._flow
        # A call that suspended the run is over at once. Another task that goes on regardless was meant to run beside
        # it; the main task and the one that was suspended only unwind.
        is_beside = isinstance(flow.outcome, Suspended) and task is not self._main and task is not self._task
        if self._is_under_way or is_beside:
            flow.refuse(side_by_side(name, self._name))
        if flow.outcome is None:
            self._task, self._name = task, name

    async def __call__(self, decisions: Decisions[Any]) -> Any:
        self._is_under_way = True
        try:
            return await self._execute(decisions)
        finally:
            self._is_under_way = False
            if self._over is not None:
                self._over.set_result(None)

    async def _execute(self, decisions: Decisions[Any]) -> Any:
        answer: Performed | None = None
        try:
            while True:
                effect = decisions.send(answer)
                if isinstance(effect, Perform):
                    answer = await self._perform(effect)
                else:
                    await self.persist()
                    answer = None
        except StopIteration as stop:
            return stop.value

    async def persist(self) -> None:
        """Make what is pending durable; unwinds where the lease is lost."""
        # What a call that was left under way has done goes with the outcome.
        if self._over is None and (write := self._flow.take_pending()):
            heed(self._flow, await self._commit.awrite(self._flow.lease, write))

    async def _perform(self, perform: Perform) -> Performed:
        if self._over is not None:
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
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
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
        return await in_time(value, perform) if inspect.isawaitable(value) else value

    async def _in_thread(self, fn: Callable[..., T], *args: Any) -> T:
        self._is_in_thread = True
        try:
            return await sync_to_async(fn, thread_sensitive=True)(*args)
        finally:
            self._is_in_thread = False


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


def is_cancelled() -> bool:
    """Whether somebody cancelled this task, which is not the same as a CancelledError that user code raised."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

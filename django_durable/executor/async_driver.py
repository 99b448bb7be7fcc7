"""Executes what a flow decides, for ``async def`` workflows: on the event loop, waiting for nobody else."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import Any

from asgiref.sync import sync_to_async

from ..core.context import Decisions
from ..core.effects import Perform, Performed, Raised, Returned
from ..core.flow import Flow
from ..core.outcomes import Lost
from ..core.stepping import enter_step, leave_step
from ..core.unwinding import Unwind
from .atomic import perform_atomically, refuse_coroutine
from .commit import Commit
from .step_call import call_plain, in_time, step_of
from .transactions import drop_broken_connections, leftover_transactions, open_transactions


class AsyncDriver:
    """``await drive(decisions)`` runs a step kind's generator to its value."""

    def __init__(self, flow: Flow, commit: Commit) -> None:
        self._flow = flow
        self._commit = commit

    async def __call__(self, decisions: Decisions[Any]) -> Any:
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
        write = self._flow.take_pending()
        if not write:
            return
        lease = self._flow.lease
        receipt = await self._commit.awrite(lease, write)
        if receipt.is_lost:
            self._flow.end(Lost())
        lease.cancel_requested |= receipt.cancelling

    async def _perform(self, perform: Perform) -> Performed:
        if perform.settle is not None:
            refuse_coroutine(perform)
            return await sync_to_async(perform_atomically, thread_sensitive=True)(self._flow, perform, self._commit)
        began = time.perf_counter()
        token = enter_step(step_of(self._flow, perform))
        try:
            value = await _call(perform)
        except Unwind:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_step(token)
        return Returned(value, time.perf_counter() - began)


async def _call(perform: Perform) -> Any:
    if inspect.iscoroutinefunction(perform.fn):
        return await in_time(perform.fn(*perform.args), perform)
    # A plain function may block or use the ORM: it runs in the run's own thread, not on the loop.
    value, error = await sync_to_async(_in_thread, thread_sensitive=True)(perform)
    if error is not None:
        raise error
    return await in_time(value, perform) if inspect.isawaitable(value) else value


def _in_thread(perform: Perform) -> tuple[Any, BaseException | None]:
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

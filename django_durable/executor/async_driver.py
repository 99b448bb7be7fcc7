"""Executes what a flow decides, for ``async def`` workflows: on the event loop, waiting for nobody else."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import AbstractAsyncContextManager
from typing import Any

from asgiref.sync import sync_to_async

from ..core.context import Decisions
from ..core.effects import Perform, Performed, Raised, Returned
from ..core.flow import Flow
from ..core.outcomes import Lost
from ..core.stepping import CurrentStep, enter_step, leave_step
from ..core.unwinding import Unwind
from ..exceptions import StepTimeout
from .commit import Commit


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
        began = time.perf_counter()
        token = enter_step(CurrentStep(self._flow.run.run_id, perform.path, perform.attempt, self._flow.lease))
        try:
            if perform.timeout is None:
                value = await _call(perform)
            else:
                value = await _call_in_time(perform, perform.timeout)
        except Unwind:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_step(token)
        return Returned(value, time.perf_counter() - began)


async def _call(perform: Perform) -> Any:
    if inspect.iscoroutinefunction(perform.fn):
        return await perform.fn(*perform.args)
    # A plain function may block or use the ORM: it runs in the run's own thread, not on the loop.
    value = await sync_to_async(perform.fn, thread_sensitive=True)(*perform.args)
    return await value if inspect.isawaitable(value) else value


async def _call_in_time(perform: Perform, seconds: float) -> Any:
    limit: AbstractAsyncContextManager[asyncio.Timeout] = asyncio.timeout(seconds)
    try:
        async with limit as scope:
            return await _call(perform)
    except TimeoutError:
        if scope.expired():
            raise StepTimeout(perform.path, seconds) from None
        raise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

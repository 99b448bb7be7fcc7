"""Steps of ``async def`` workflows: coroutines on the loop, plain functions in the run's own thread."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from asgiref.sync import SyncToAsync, sync_to_async

from ..core.flow.effects import Perform, Performed, Raised, Returned
from ..core.flow.flow import Flow
from ..core.flow.stepping import enter_step, leave_step
from ..core.unwinding import Unwind
from ..exceptions import ContextMisuse
from .async_calls import Calls
from .atomic import perform_atomically, refuse_coroutine
from .commit import Commit
from .interruption import is_cancelled
from .step_call import call_plain, in_time, step_of
from .transactions import (
    drop_broken_connections,
    leftover_transactions,
    refuse_open_transaction,
    transactions_before,
)
from .undisturbed import undisturbed

T = TypeVar("T")


class AsyncSteps:
    """Of one line; ``calls`` are the line's."""

    def __init__(self, flow: Flow, commit: Commit, calls: Calls) -> None:
        self._flow = flow
        self._commit = commit
        self._calls = calls

    async def perform(self, perform: Perform) -> Performed:
        """Call the step's function; unwinds where nothing may begin any more."""
        if self._calls.begin_nothing:
            raise Unwind
        if perform.settle is not None:
            refuse_coroutine(perform)
            return await self._in_thread(_perform_atomically, self._flow, perform, self._commit)
        began = time.perf_counter()
        token = enter_step(step_of(self._flow, perform))
        try:
            if perform.timeout is None and is_coroutine_function(perform.fn):
                value = await perform.fn(*perform.args)
            else:
                value = await self._call(perform)
        except Unwind:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled(asyncio.current_task()):
                raise
            if isinstance(error, _Refused):
                raise ContextMisuse(*error.args) from None
            return Raised(error, time.perf_counter() - began)
        finally:
            leave_step(token)
        return Returned(value, time.perf_counter() - began)

    async def _call(self, perform: Perform) -> Any:
        if is_coroutine_function(perform.fn):
            return await in_time(perform.fn(*perform.args), perform)
        # A plain function may block or use the ORM: it runs in the run's own thread, not on the loop.
        value, error = await self._in_thread(_call_plain, perform)
        if error is not None:
            raise error
        if not inspect.isawaitable(value):
            return value
        if self._calls.begin_nothing:
            if inspect.iscoroutine(value):
                value.close()
            raise Unwind
        return await in_time(value, perform)

    async def refuse_open_transaction(self) -> None:
        """Raise ContextMisuse where the workflow's code has left a transaction open in the run's thread."""
        if _has_thread():
            await self._in_thread(refuse_open_transaction, transactions_before())

    async def _in_thread(self, fn: Callable[..., T], *args: Any) -> T:
        calls = self._calls
        calls.is_in_thread = True
        work = undisturbed(sync_to_async(self._in_turn, thread_sensitive=True)(fn, *args))
        try:
            return await work
        except asyncio.CancelledError:
            # Only now: a thread cannot be cancelled, and what it has done is recorded before the call is left.
            calls.is_cut_short = True
            return work.result()
        finally:
            calls.is_in_thread = False

    def _in_turn(self, fn: Callable[..., T], *args: Any) -> T:
        # The run has one thread, for which its branches wait in a queue: some lose their race meanwhile.
        if self._calls.are_unwanted:
            raise Unwind
        return fn(*args)


def is_coroutine_function(fn: Any) -> bool:
    """As ``inspect`` says, which takes three times as long for a plain function."""
    if type(fn) is FunctionType:
        return bool(fn.__code__.co_flags & inspect.CO_COROUTINE) or inspect.iscoroutinefunction(fn)
    return inspect.iscoroutinefunction(fn)


class _Refused(Exception):
    """The step was not begun, so that it is not the step that failed."""


def _has_thread() -> bool:
    context = SyncToAsync.thread_sensitive_context.get(None)
    return context is None or context in SyncToAsync.context_to_thread_executor


def _perform_atomically(flow: Flow, perform: Perform, commit: Commit) -> Performed:
    refuse_open_transaction(transactions_before())
    return perform_atomically(flow, perform, commit)


def _call_plain(perform: Perform) -> tuple[Any, BaseException | None]:
    outer = transactions_before()
    try:
        refuse_open_transaction(outer)
    except ContextMisuse as misuse:
        raise _Refused(*misuse.args) from None
    # The error comes back as a value: a future does not take StopIteration, and SystemExit would end the thread.
    try:
        value = call_plain(perform)
    except BaseException as error:
        leftover_transactions(outer)
        drop_broken_connections()
        return None, error
    return value, leftover_transactions(outer)

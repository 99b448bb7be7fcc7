"""Calling a step's function in this thread: with ``current_step()`` set, and within its time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import async_to_sync

from ..core import clock
from ..core.flow.effects import Perform
from ..core.flow.flow import Flow
from ..core.flow.stepping import CurrentStep, enter_step, leave_step
from ..exceptions import StepTimeout
from .deadline import call_in_time


def call_step(flow: Flow, perform: Perform) -> Any:
    """What the function returns. Raises what it raises, StepTimeout when its time is over."""
    token = enter_step(step_of(flow, perform))
    try:
        return call_here(perform)
    finally:
        leave_step(token)


def call_here(perform: Perform) -> Any:
    """As ``call_step``, for who has entered the step already."""
    value = call_plain(perform)
    return async_to_sync(in_time)(value, perform) if inspect.iscoroutine(value) else value


def step_of(flow: Flow, perform: Perform) -> CurrentStep:
    """What ``current_step()`` tells inside this attempt of the step."""
    deadline = None if perform.timeout is None else clock.monotonic() + perform.timeout
    return CurrentStep(flow.run.run_id, perform.path, perform.attempt, flow.lease, deadline, flow.heeds_cancel)


def call_plain(perform: Perform) -> Any:
    """What the function returns in this thread, or StepTimeout once it has left the code after its time was over."""
    if perform.timeout is None:
        return perform.fn(*perform.args)
    return call_in_time(perform.path, perform.timeout, perform.fn, perform.args)


async def in_time(call: Awaitable[Any], perform: Perform) -> Any:
    """What ``call`` returns on the event loop, or StepTimeout when the step's time is over."""
    if perform.timeout is None:
        return await call
    try:
        async with asyncio.timeout(perform.timeout) as scope:
            return await call
    except TimeoutError:
        if scope.expired():
            raise StepTimeout(perform.path, perform.timeout) from None
        raise

"""Calling a step's function in this thread: with ``current_step()`` set, and within its time."""

from __future__ import annotations

import inspect
from typing import Any

from asgiref.sync import async_to_sync

from ..core import clock
from ..core.effects import Perform
from ..core.flow import Flow
from ..core.stepping import CurrentStep, enter_step, leave_step
from .deadline import call_in_time


def call_step(flow: Flow, perform: Perform) -> Any:
    """What the function returns. Raises what it raises, StepTimeout when its time is over."""
    token = enter_step(step_of(flow, perform))
    try:
        if perform.timeout is None:
            value = perform.fn(*perform.args)
        else:
            value = call_in_time(perform.path, perform.timeout, perform.fn, perform.args)
        return async_to_sync(_awaited)(value) if inspect.iscoroutine(value) else value
    finally:
        leave_step(token)


def step_of(flow: Flow, perform: Perform) -> CurrentStep:
    """What ``current_step()`` tells inside this attempt of the step."""
    deadline = None if perform.timeout is None else clock.monotonic() + perform.timeout
    return CurrentStep(flow.run.run_id, perform.path, perform.attempt, flow.lease, deadline)


async def _awaited(coroutine: Any) -> Any:
    return await coroutine

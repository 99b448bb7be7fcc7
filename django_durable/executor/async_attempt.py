"""An attempt of an ``async def`` workflow, as one task of an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from ..core.context import AsyncContext
from ..core.executing import enter_run, leave_run
from ..core.outcomes import Failed, Lost, Outcome
from ..core.steps import step
from ..exceptions import StepFailed
from ..store.claiming import Claim
from ..workflows.definition import Workflow
from .async_driver import AsyncDriver, is_cancelled
from .attempt import ON_FAILURE, Attempt
from .commit import Commit


async def arun_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> Outcome:
    """As ``sync_attempt.run_attempt``. Plain functions run in the thread of the caller's ThreadSensitiveContext."""
    attempt = Attempt(claim, workflow)
    token = enter_run(claim.run_id)
    try:
        return await _store(attempt, await _perform(attempt, AsyncDriver(attempt.flow, commit)), commit)
    finally:
        leave_run(token)


async def _perform(attempt: Attempt, drive: AsyncDriver) -> Outcome:
    try:
        attempt.flow.require_live()
        if attempt.is_ending:
            return await _on_failure(attempt, drive)
        call = attempt.read_input()
        if not isinstance(call, tuple):
            return call
        args, kwargs = call
        value = await attempt.workflow.fn(AsyncContext(attempt.flow, drive), *args, **kwargs)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            return attempt.interrupted()
        return attempt.raised(error)
    return attempt.returned(value)


async def _on_failure(attempt: Attempt, drive: AsyncDriver) -> Outcome:
    hook, failure = attempt.failure_hook()
    try:
        await drive(step(attempt.flow, ON_FAILURE, hook, (failure,)))
    except StepFailed:
        attempt.log_failed_hook()
    return Failed(failure.error)


async def _store(attempt: Attempt, outcome: Outcome, commit: Commit) -> Outcome:
    write = attempt.flow.take_pending()
    if isinstance(outcome, Lost):
        return outcome
    write.outcome = outcome
    receipt = await commit.awrite(attempt.claim.lease, write)
    return Lost() if receipt.is_lost else outcome

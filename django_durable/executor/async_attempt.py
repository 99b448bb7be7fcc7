"""An attempt of an ``async def`` workflow, as one task of an event loop."""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from typing import Any

from ..core.async_context import AsyncContext
from ..core.flow.executing import enter_run
from ..core.journal.journal import Write
from ..core.journal.outcomes import Lost, Outcome
from ..store.claiming import Claim
from ..workflows.definition import Workflow
from .async_driver import AsyncDriver
from .attempt import Attempt
from .commit import Commit
from .interruption import AttemptTask, Interruption

Performed = tuple[Outcome, Write | None]


async def arun_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> Outcome:
    """As ``sync_attempt.run_attempt``. Plain functions run in the thread of the caller's ThreadSensitiveContext.

    A task that is cancelled in here hands its run back, once the run's code has come to its end.
    """
    outcome, write = await aperform_attempt(claim, workflow, commit)
    is_stored = write is not None and not (await commit.awrite(claim.lease, write)).is_lost
    return outcome if is_stored else Lost()


async def aperform_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> Performed:
    """As ``sync_attempt.perform_attempt``."""
    # In a task of its own, so that the two are told apart: who cancels that one is the workflow's own code (a
    # time-out of asyncio's, a task group), and who cancels this one interrupts the attempt.
    code = begin_attempt(claim, workflow, commit, copy_context(), Interruption(asyncio.current_task()))
    while not code.done():
        try:
            await _end_of(code)
        except asyncio.CancelledError:
            code.cancel()
    return code.result()


def _end_of(code: asyncio.Task[Any]) -> asyncio.Future[None]:
    """Comes to its end with ``code``, which is not cancelled with it: as ``asyncio.wait``, which takes three times as
    long for one."""
    ended: asyncio.Future[None] = code.get_loop().create_future()
    code.add_done_callback(lambda _: None if ended.done() else ended.set_result(None))
    return ended


def begin_attempt(
    claim: Claim, workflow: Workflow[Any, Any], commit: Commit, context: Context, interruption: Interruption
) -> AttemptTask[Performed]:
    """Begin an attempt on the running loop: a task in ``context`` that comes to the outcome, and to what is left to be
    committed with it (None where the run is somebody else's)."""
    attempt = Attempt(claim, workflow)
    context.run(enter_run, attempt.flow)
    drive = AsyncDriver(attempt.flow, commit, interruption)
    drive.tails = attempt.tails(commit, AsyncDriver.__module__)
    task = AttemptTask(_to_its_end(attempt, drive), loop=asyncio.get_running_loop(), context=context)
    task.run_id, task.interruption = claim.run_id, interruption
    return task


async def _to_its_end(attempt: Attempt, drive: AsyncDriver) -> Performed:
    outcome = await _perform(attempt, drive)
    # Here and now: tasks that the code has left behind find the attempt over before they get another turn.
    return outcome, attempt.last_write(outcome)


async def _perform(attempt: Attempt, drive: AsyncDriver) -> Outcome:
    try:
        body = attempt.body(AsyncContext(attempt.flow, drive), drive)
        outcome = attempt.returned(await drive.run(body))
    except BaseException as error:
        outcome = attempt.interrupted() if drive.is_interrupted else attempt.raised(error)
    return await _settle(attempt, drive, outcome) if attempt.has_losers(outcome) else outcome


async def _settle(attempt: Attempt, drive: AsyncDriver, outcome: Outcome) -> Outcome:
    try:
        await drive.run(lambda: drive(attempt.settling(outcome)))
    except BaseException as error:
        return attempt.interrupted() if drive.is_interrupted else attempt.settled(outcome, error)
    return attempt.settled(outcome)

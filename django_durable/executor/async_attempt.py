"""An attempt of an ``async def`` workflow, as one task of an event loop."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any

from ..core.async_context import AsyncContext
from ..core.flow.executing import enter_run, leave_run
from ..core.journal.journal import Write
from ..core.journal.outcomes import Lost, Outcome
from ..store.claiming import Claim
from ..workflows.definition import Workflow
from .async_driver import AsyncDriver
from .attempt import Attempt
from .commit import Commit


async def arun_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> Outcome:
    """As ``sync_attempt.run_attempt``. Plain functions run in the thread of the caller's ThreadSensitiveContext.

    A task that is cancelled in here hands its run back, once the run's code has come to its end.
    """
    outcome, write = await aperform_attempt(claim, workflow, commit)
    is_stored = write is not None and not (await commit.awrite(claim.lease, write)).is_lost
    return outcome if is_stored else Lost()


async def aperform_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> tuple[Outcome, Write | None]:
    """As ``sync_attempt.perform_attempt``."""
    attempt = Attempt(claim, workflow)
    token = enter_run(attempt.flow)
    try:
        outcome = await _work(attempt, commit)
        return outcome, attempt.last_write(outcome)
    finally:
        leave_run(token)


def begin_attempt(
    claim: Claim, workflow: Workflow[Any, Any], commit: Commit, context: Context
) -> tuple[Attempt, asyncio.Task[Outcome]]:
    """Begin an attempt in ``context``, as a task whose result is its outcome; ``Attempt.last_write`` is then to be
    asked for what is left.

    For who never interrupts it, and calls this from no task: whoever cancels that one is the workflow's own code.
    """
    attempt = Attempt(claim, workflow)
    context.run(enter_run, attempt.flow)
    loop = asyncio.get_running_loop()
    return attempt, loop.create_task(_perform(attempt, _driver(attempt, commit)), context=context)


def _driver(attempt: Attempt, commit: Commit) -> AsyncDriver:
    drive = AsyncDriver(attempt.flow, commit)
    drive.tails = attempt.tails(commit, AsyncDriver.__module__)
    return drive


async def _work(attempt: Attempt, commit: Commit) -> Outcome:
    # In a task of its own, so that the two are told apart: who cancels that one is the workflow's own code (a
    # time-out of asyncio's, a task group), and who cancels this one is the worker.
    code = asyncio.create_task(_perform(attempt, _driver(attempt, commit)))
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

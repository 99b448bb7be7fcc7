"""An attempt of a ``def`` workflow, in the calling thread."""

from __future__ import annotations

from typing import Any

from ..core.context import Context
from ..core.executing import enter_run, leave_run
from ..core.outcomes import Failed, Lost, Outcome
from ..core.steps import step
from ..exceptions import StepFailed
from ..store.claiming import Claim
from ..workflows.definition import Workflow
from .attempt import ON_FAILURE, Attempt
from .commit import Commit
from .sync_driver import SyncDriver


def run_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit) -> Outcome:
    """Replay and go on from there; the outcome, which has been made durable (unless it is ``Lost``)."""
    attempt = Attempt(claim, workflow)
    token = enter_run(claim.run_id)
    try:
        drive = SyncDriver(attempt.flow, commit)
        outcome = _perform(attempt, drive)
        drive.roll_back()
        return _store(attempt, outcome, commit)
    finally:
        leave_run(token)


def _perform(attempt: Attempt, drive: SyncDriver) -> Outcome:
    try:
        attempt.flow.require_live()
        if attempt.is_ending:
            return _on_failure(attempt, drive)
        call = attempt.read_input()
        if not isinstance(call, tuple):
            return call
        args, kwargs = call
        value = attempt.workflow.fn(Context(attempt.flow, drive), *args, **kwargs)
    except BaseException as error:
        return attempt.raised(error)
    return attempt.returned(value)


def _on_failure(attempt: Attempt, drive: SyncDriver) -> Outcome:
    hook, failure = attempt.failure_hook()
    try:
        drive(step(attempt.flow, ON_FAILURE, hook, (failure,)))
    except StepFailed:
        attempt.log_failed_hook()
    return Failed(failure.error)


def _store(attempt: Attempt, outcome: Outcome, commit: Commit) -> Outcome:
    write = attempt.flow.take_pending()
    if isinstance(outcome, Lost):
        return outcome
    write.outcome = outcome
    receipt = commit.write(attempt.claim.lease, write)
    return Lost() if receipt.is_lost else outcome

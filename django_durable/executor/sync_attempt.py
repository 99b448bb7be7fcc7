"""An attempt of a ``def`` workflow, in the calling thread."""

from __future__ import annotations

from typing import Any

from ..core.context import Context
from ..core.flow.executing import enter_run, leave_run
from ..core.journal.journal import Write
from ..core.journal.outcomes import Lost, Outcome
from ..store.claiming import Claim
from ..workflows.definition import Workflow
from .attempt import Attempt
from .branch_threads import NO_THREADS, Branches
from .commit import Commit
from .sync_driver import SyncDriver


def run_attempt(claim: Claim, workflow: Workflow[Any, Any], commit: Commit, branches: Branches = NO_THREADS) -> Outcome:
    """Replay and go on from there; the outcome, which has been made durable (unless it is ``Lost``)."""
    outcome, write = perform_attempt(claim, workflow, commit, branches)
    is_stored = write is not None and not commit.write(claim.lease, write).is_lost
    return outcome if is_stored else Lost()


def perform_attempt(
    claim: Claim, workflow: Workflow[Any, Any], commit: Commit, branches: Branches = NO_THREADS
) -> tuple[Outcome, Write | None]:
    """Replay and go on from there: the outcome, and what makes it durable; None where the run is somebody else's."""
    attempt = Attempt(claim, workflow)
    token = enter_run(attempt.flow)
    try:
        drive = SyncDriver(attempt.flow, commit, branches)
        drive.tails = attempt.tails(commit, Attempt.__module__)
        outcome = _perform(attempt, drive)
        if attempt.has_losers(outcome):
            outcome = _settle(attempt, drive, outcome)
        drive.finish()
        return outcome, attempt.last_write(outcome)
    finally:
        leave_run(token)


def _perform(attempt: Attempt, drive: SyncDriver) -> Outcome:
    try:
        body = attempt.body(Context(attempt.flow, drive), drive)
        return attempt.returned(body())
    except BaseException as error:
        return attempt.raised(error)


def _settle(attempt: Attempt, drive: SyncDriver, outcome: Outcome) -> Outcome:
    try:
        drive(attempt.settling(outcome))
    except BaseException as error:
        return attempt.settled(outcome, error)
    return attempt.settled(outcome)

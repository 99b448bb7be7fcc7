"""What becomes of a run whose function raised: another attempt, or an error to end with."""

from __future__ import annotations

import random
from typing import Any

from ..conf import durable_settings
from ..core import clock
from ..core.flow.notes import ERROR_MAX
from ..core.journal.culprits import JOURNALED, culprits_of, made_of, place_of
from ..core.journal.journal import Write
from ..core.journal.log import FailedAttempt, attempt_line
from ..core.journal.outcomes import Ending, Failed, Outcome, Retried
from ..core.journal.states import Phase
from ..core.kinds.reasons import is_rollback, reason_of
from ..core.payloads.failures import describe
from ..core.retries import Retry, retry_delay
from ..exceptions import ContextMisuse, InvalidInput, InvalidName, JournalFull, PayloadError, StepNameReused
from ..store.claiming import Claim
from ..workflows.options import WorkflowOptions

HOPELESS = (ContextMisuse, InvalidInput, InvalidName, JournalFull, PayloadError, StepNameReused)
"""Errors that a replay of the same code and journal can only meet again."""


def tried_again(claim: Claim, retry: Retry, error: BaseException) -> Retried | None:
    """The next attempt of the run as a whole; None where there is to be none."""
    if claim.phase != Phase.FORWARD or _is_final(error):
        return None
    attempt, allowed = claim.attempt, claim.max_attempts or retry.max_attempts
    # ``using(max_attempts=…)`` replaces the policy's count, so the policy is asked as if at its first attempt.
    if attempt >= allowed or not retry.allows(error, min(attempt, retry.max_attempts - 1)):
        return None
    return Retried(describe(error), attempt + 1, retry_delay(retry, error, attempt, random.random))


def note_retry(claim: Claim, retried: Retried, write: Write) -> None:
    """Keep in the run's log, with the ``write`` that stores it, that this attempt of the run failed and is made again.

    The run has the error of its last attempt only. Of an attempt that has waited the line has the time since the wait.
    """
    if durable_settings().LOG_LINES > 0:
        error = {**retried.error, "message": retried.error["message"][:ERROR_MAX]}
        told = FailedAttempt.of(claim.attempt, retried.delay, error)
        # A claim has no more than one such line.
        place, seconds = f"\n{claim.lease.token}", clock.monotonic() - claim.claimed
        write.open_log().add(attempt_line(told, claim.attempt, claim.journal.now(), "", place, seconds))


def refused(claim: Claim, options: WorkflowOptions, error: BaseException) -> Outcome:
    """What becomes of a run that succeeded with something that the database does not take."""
    if (again := tried_again(claim, options.retry, error)) is not None:
        return again
    if any(entry.undo for entry in claim.journal.under("")):
        return Ending(Phase.COMPENSATING, told(error))
    return Failed(told(error)) if options.on_failure is None else Ending(Phase.ON_FAILURE, told(error))


def _is_final(error: BaseException) -> bool:
    """Whether trying the run again is of no use: an error is as hopeless as any that it was made of."""
    return is_rollback(error) or any(isinstance(one, (*JOURNALED, *HOPELESS)) for one in made_of(error))


def told(error: BaseException) -> dict[str, Any]:
    """The error as the run ends with it: with the reason, which its parent may go by; the step that it came from; and
    what a resume would try again."""
    described = {**describe(error), "reason": reason_of(error)}
    if place := place_of(error):
        described["step"] = place
    if culprits := culprits_of(error):
        described["culprits"] = culprits
    return described

"""One attempt: what to call, and what its end means. The same for ``def`` and ``async def``."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from ..conf import durable_settings
from ..core.codec import decode
from ..core.context import Decisions
from ..core.failures import describe
from ..core.flow import Flow, RunInfo
from ..core.journal import Write
from ..core.names import ON_FAILURE
from ..core.outcomes import Blocked, Cancelled, Completed, Ending, Failed, Lost, Outcome, Released, Retried, Suspended
from ..core.retries import retry_delay
from ..core.states import BlockReason, Phase
from ..core.steps import step
from ..core.unwinding import Unwind
from ..exceptions import (
    ChildFailed,
    ContextMisuse,
    InvalidInput,
    InvalidName,
    PayloadError,
    PayloadUndecodable,
    RunCancelled,
    RunFailed,
    StepFailed,
    StepNameReused,
    SuspensionSwallowed,
)
from ..store.claiming import Claim
from ..workflows.definition import Workflow

logger = logging.getLogger("django_durable.executor")

RETRIED = (StepFailed, ChildFailed)
"""Errors that were retried where they happened: the run is not tried again as a whole for them."""

HOPELESS = (ContextMisuse, InvalidInput, InvalidName, PayloadError, StepNameReused)
"""Errors that a replay of the same code and journal can only meet again."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Attempt:
    """A claim and its workflow's code, up to the outcome."""

    def __init__(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        self.claim = claim
        self.workflow = workflow
        settings = durable_settings()
        self.flow = Flow(
            RunInfo(
                run_id=claim.run_id,
                workflow=claim.workflow,
                attempt=claim.attempt,
                root_id=claim.root_id,
                deadline_at=claim.deadline_at if claim.phase == Phase.FORWARD else None,
                max_payload_bytes=settings.MAX_PAYLOAD_BYTES,
                warn_payload_bytes=settings.WARN_PAYLOAD_BYTES,
                lease_margin=settings.lease_margin,
            ),
            claim.journal,
            claim.lease,
            workflow.options.step_retry,
        )

    @property
    def is_ending(self) -> bool:
        """Whether the function is done with, and ``on_failure`` is what is left to do."""
        return self.claim.phase == Phase.ON_FAILURE

    def body(self, ctx: Any, drive: Callable[[Decisions[Any]], Any]) -> Callable[[], Any]:
        """What to call: the function with its input, or ``on_failure`` as a step. Unwinds where nothing is to be."""
        self.flow.require_live()
        if self.claim.unreadable is not None:
            self.flow.end(Blocked(BlockReason.UNDECODABLE, self.claim.unreadable))
        if self.is_ending:
            failure = self._failure()
            # The workflow may have lost its hook since; the step is then a no-op, and the failure stands.
            hook = self.workflow.options.on_failure or _no_hook
            return partial(drive, step(self.flow, ON_FAILURE, hook, (failure,)))
        args, kwargs = self._read_input()
        return partial(self.workflow.fn, ctx, *args, **kwargs)

    def _read_input(self) -> Call:
        try:
            if self.claim.input is None:
                raise PayloadUndecodable("the input is gone")
            return self.workflow.signature.read(self.claim.workflow, self.claim.input)
        except (PayloadUndecodable, InvalidInput) as error:
            # It fitted when the run was started: a fault of the deployment.
            self.flow.end(Blocked(BlockReason.UNDECODABLE, str(error)))

    def _failure(self) -> RunFailed:
        """What the run will end with, and ``on_failure`` is told."""
        return RunFailed(self.claim.run_id, decode(self.claim.pending_error) if self.claim.pending_error else {})

    # --- after the function --------------------------------------------------------------------

    def returned(self, value: Any) -> Outcome:
        """The outcome after the function returned ``value``."""
        outcome = self.flow.outcome
        if self.flow.misuse is not None:
            return self._final(self.flow.misuse)
        if isinstance(outcome, Suspended):
            return self._final(SuspensionSwallowed(outcome.waiting_on.partition(":")[2]))
        if outcome is not None:
            return self._stamped(outcome)
        if self.is_ending:
            return Failed(self._failure().error)
        try:
            return Completed(self.flow.encode(value, "result"))
        except PayloadError as error:
            return self._final(error)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome after ``error`` surfaced. What the flow recorded stands, whatever surfaced."""
        outcome = self.flow.outcome
        if self.flow.misuse is not None:
            return self._final(self.flow.misuse)
        if outcome is not None:
            return self._stamped(outcome)
        if self.is_ending and isinstance(error, StepFailed):
            logger.error("on_failure of %s failed for run %s", self.claim.workflow, self.claim.run_id)
            return Failed(self._failure().error)
        if isinstance(error, RunCancelled) and self.claim.lease.cancel_requested:
            return Cancelled()
        if isinstance(error, PayloadUndecodable):
            return self._stamped(Blocked(BlockReason.UNDECODABLE, str(error)))
        return self._again(error) or self._final(error)

    def interrupted(self) -> Outcome:
        """The outcome after the worker cancelled the task: what the lease says, else handed back unharmed."""
        if self.flow.misuse is not None:
            return self._final(self.flow.misuse)
        with suppress(Unwind):
            self.flow.require_live()
        return Released() if self.flow.outcome is None else self._stamped(self.flow.outcome)

    def last_write(self, outcome: Outcome) -> Write | None:
        """What is left to be committed, with the outcome; None where the run is somebody else's."""
        write = self.flow.close()
        write.outcome = outcome
        return None if isinstance(outcome, Lost) else write

    # --- outcomes ------------------------------------------------------------------------------

    def _again(self, error: BaseException) -> Retried | None:
        if _is_final(error):
            return None
        retry, attempt = self.workflow.options.retry, self.claim.attempt
        allowed = self.claim.max_attempts or retry.max_attempts
        # ``using(max_attempts=…)`` replaces the policy's count, so the policy is asked as if at its first attempt.
        if self.is_ending or attempt >= allowed or not retry.allows(error, min(attempt, retry.max_attempts - 1)):
            return None
        delay = retry_delay(retry, error, attempt, random.random)
        return Retried(describe(error), attempt + 1, delay)

    def _final(self, error: BaseException) -> Outcome:
        described = describe(error)
        if isinstance(error, RETRIED):
            described["step"] = error.step
        if culprits := _culprits(error):
            described["culprits"] = culprits
        return self._failed(described)

    def _failed(self, described: dict[str, Any]) -> Outcome:
        if self.workflow.options.on_failure is not None and not self.is_ending:
            return Ending(described)
        return Failed(described)

    def _stamped(self, outcome: Outcome) -> Outcome:
        match outcome:
            case Failed(error):
                return self._failed(error)
            case Blocked(reason, text):
                return Blocked(reason, text, self.workflow.fingerprint)
            case _:
                return outcome


def _is_final(error: BaseException) -> bool:
    """Whether trying the run again is of no use; a group (of a TaskGroup) is as hopeless as any error in it."""
    final = (*RETRIED, *HOPELESS)
    return isinstance(error, final) or (isinstance(error, BaseExceptionGroup) and error.subgroup(final) is not None)


def _no_hook(failure: RunFailed) -> None:
    return None


def _culprits(error: BaseException | None) -> list[str]:
    """Paths of the steps and children that ended the run: what an operator's resume tries again.

    Also those that the workflow wrapped, in a group or by ``raise … from``. Not the context of an error: what failed
    there was being handled, and trying it again would do twice what its handler has made good.
    """
    if isinstance(error, RETRIED):
        return [error.step]
    if isinstance(error, BaseExceptionGroup):
        return [path for member in error.exceptions for path in _culprits(member)]
    return _culprits(error.__cause__) if error is not None else []

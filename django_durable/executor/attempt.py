"""One attempt: what to call, and what its end means. The same for ``def`` and ``async def``."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..conf import durable_settings
from ..core.codec import decode
from ..core.failures import describe
from ..core.flow import Flow, RunInfo
from ..core.outcomes import Blocked, Cancelled, Completed, Ending, Failed, Outcome, Released, Retried, Suspended
from ..core.retries import retry_delay
from ..core.states import BlockReason, Phase
from ..core.unwinding import Unwind
from ..exceptions import (
    ChildFailed,
    InvalidInput,
    PayloadError,
    PayloadUndecodable,
    RunCancelled,
    RunFailed,
    StepFailed,
    SuspensionSwallowed,
)
from ..store.claiming import Claim
from ..workflows.definition import Workflow

logger = logging.getLogger("django_durable.executor")

FINAL = (StepFailed, ChildFailed)
"""Errors that were retried where they happened: the run is not tried again as a whole for them."""

ON_FAILURE = "%on_failure"
"""The path of the ``on_failure`` step; no name that a person chose can be it."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Attempt:
    """A claim and its workflow's code, up to the outcome."""

    def __init__(self, claim: Claim, workflow: Workflow[Any, Any]) -> None:
        self.claim = claim
        self.workflow = workflow
        self.flow = Flow(
            RunInfo(
                run_id=claim.run_id,
                workflow=claim.workflow,
                attempt=claim.attempt,
                root_id=claim.root_id,
                deadline_at=claim.deadline_at if claim.phase == Phase.FORWARD else None,
                max_payload_bytes=durable_settings().MAX_PAYLOAD_BYTES,
                warn_payload_bytes=durable_settings().WARN_PAYLOAD_BYTES,
            ),
            claim.journal,
            claim.lease,
            workflow.options.step_retry,
        )

    @property
    def is_ending(self) -> bool:
        """Whether the function is done with, and ``on_failure`` is what is left to do."""
        return self.claim.phase == Phase.ON_FAILURE

    def read_input(self) -> Call | Outcome:
        """The arguments, or the outcome where they no longer fit this code: a fault of the deployment."""
        try:
            if self.claim.input is None:
                raise PayloadUndecodable("the input is gone")
            return self.workflow.signature.read(self.claim.workflow, self.claim.input)
        except (PayloadUndecodable, InvalidInput) as error:
            return self._undecodable(error)

    def _undecodable(self, error: Exception) -> Outcome:
        return Blocked(BlockReason.UNDECODABLE, str(error), self.workflow.fingerprint)

    def failure_hook(self) -> tuple[Callable[[RunFailed], Any], RunFailed]:
        """``on_failure`` and what to call it with: the failure that the run will end with."""
        error = decode(self.claim.pending_error) if self.claim.pending_error else {}
        # The workflow may have lost its hook since; the step is then a no-op, and the failure stands.
        return self.workflow.options.on_failure or _no_hook, RunFailed(self.claim.run_id, error)

    def log_failed_hook(self) -> None:
        logger.error("on_failure of %s failed for run %s", self.claim.workflow, self.claim.run_id)

    # --- after the function --------------------------------------------------------------------

    def returned(self, value: Any) -> Outcome:
        """The outcome after the function returned ``value``."""
        outcome = self.flow.outcome
        if isinstance(outcome, Suspended):
            return self._final(SuspensionSwallowed(outcome.waiting_on.partition(":")[2]))
        if outcome is not None:
            return self._stamped(outcome)
        try:
            return Completed(self.flow.encode(value, "result"))
        except PayloadError as error:
            return self._final(error)

    def raised(self, error: BaseException) -> Outcome:
        """The outcome after ``error`` surfaced. What the flow recorded stands, whatever surfaced."""
        outcome = self.flow.outcome
        if outcome is not None:
            return self._stamped(outcome)
        if isinstance(error, RunCancelled) and self.claim.lease.cancel_requested:
            return Cancelled()
        if isinstance(error, PayloadUndecodable):
            return self._undecodable(error)
        if not isinstance(error, FINAL) and (again := self._again(error)) is not None:
            return again
        return self._final(error)

    def interrupted(self) -> Outcome:
        """The outcome after the worker cancelled the task: what the lease says, else handed back unharmed."""
        with suppress(Unwind):
            self.flow.require_live()
        return Released() if self.flow.outcome is None else self._stamped(self.flow.outcome)

    def _again(self, error: BaseException) -> Retried | None:
        retry, attempt = self.workflow.options.retry, self.claim.attempt
        allowed = self.claim.max_attempts or retry.max_attempts
        # ``using(max_attempts=…)`` replaces the policy's count, so the policy is asked as if at its first attempt.
        if self.is_ending or attempt >= allowed or not retry.allows(error, min(attempt, retry.max_attempts - 1)):
            return None
        delay = retry_delay(retry, error, attempt, random.random)
        return Retried(describe(error), attempt + 1, delay)

    def _final(self, error: BaseException) -> Outcome:
        described = describe(error)
        if isinstance(error, FINAL):
            described["step"] = error.step
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


def _no_hook(failure: RunFailed) -> None:
    return None

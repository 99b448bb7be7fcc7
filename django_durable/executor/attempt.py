"""One attempt: what to call, and what its end means. The same for ``def`` and ``async def``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ..conf import durable_settings
from ..core.flow.abandoning import leave_all, leave_waits
from ..core.flow.effects import Decisions
from ..core.flow.flow import Flow
from ..core.flow.run_info import RunInfo
from ..core.flow.scopes import Body
from ..core.journal.journal import Write
from ..core.journal.outcomes import (
    Blocked,
    Cancelled,
    Completed,
    Ending,
    Failed,
    Lost,
    Outcome,
    Paused,
    Released,
    Retried,
    Suspended,
    together,
)
from ..core.journal.states import BlockReason, Phase
from ..core.kinds.compensation import owes, owes_losers, settle_losers, undo_losers, undo_run
from ..core.kinds.steps import step
from ..core.names import ON_FAILURE
from ..core.payloads.codec import decode
from ..core.payloads.failures import in_one_line
from ..core.unwinding import Unwind
from ..exceptions import (
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
from .commit import Commit
from .failing import note_retry, told, tried_again
from .tails import Tails, tails_of

logger = logging.getLogger("django_durable.executor")

UNVISITED_MAX = 100
"""Paths that are kept of what a run did not come to: enough for a person to see what has changed."""


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
                warn_entries=settings.JOURNAL_WARN_ENTRIES,
                # What comes after the function has to find room, whatever that has left.
                max_entries=settings.JOURNAL_MAX_ENTRIES if claim.phase == Phase.FORWARD else None,
                is_fork=claim.is_fork,
                keeps_log=settings.LOG_LINES > 0,
                has_begun=claim.has_begun,
            ),
            claim.journal,
            claim.lease,
            workflow.options.step_retry,
        )

        # That a cancellation was asked for is a reason to undo what was done, and not to stop undoing it.
        self.flow.heeds_cancel = claim.phase != Phase.COMPENSATING

    def tails(self, commit: Commit, caller: str) -> Tails | None:
        """Where the function, called from the module ``caller``, leaves what is pending to the commit of the outcome;
        None: nowhere."""
        if self.claim.phase != Phase.FORWARD or commit.is_stepwise:
            return None
        return tails_of(self.workflow.fn, caller)

    @property
    def is_ending(self) -> bool:
        """Whether the function is done with, and ``on_failure`` is what is left to do."""
        return self.claim.phase == Phase.ON_FAILURE

    @property
    def is_compensating(self) -> bool:
        """Whether the function is done with, and what it did is to be undone."""
        return self.claim.phase == Phase.COMPENSATING

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
        function = self._function()
        if self.is_compensating:
            stands = self.claim.pending_error is None and not self.workflow.options.compensate_on_cancel
            undo = undo_losers if stands else undo_run
            return partial(drive, undo(self.flow, function))
        return partial(function, ctx)

    def _function(self) -> Body:
        """The workflow's function, with an input of its own: code may change what it is given."""
        try:
            if self.claim.input is None:
                raise PayloadUndecodable("the input is gone")
            args, kwargs = self.workflow.signature.read(self.claim.workflow, self.claim.input)
        except (PayloadUndecodable, InvalidInput) as error:
            # It fitted when the run was started: a fault of the deployment.
            self.flow.end(Blocked(BlockReason.UNDECODABLE, str(error)))
        return lambda ctx: self.workflow.fn(ctx, *args, **kwargs)

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
        if self.is_compensating:
            return self._undone(value)
        unvisited = self.flow.unvisited() if self.claim.has_begun else []
        if unvisited and self.workflow.options.strict:
            return self._stamped(Blocked(BlockReason.DIVERGED, _not_visited(unvisited)))
        if unvisited:
            name = in_one_line(self.claim.workflow)
            logger.warning("diverged run=%s workflow=%s: %s", self.claim.run_id, name, _not_visited(unvisited))
        try:
            return Completed(
                self.flow.encode(value, "result"), self._undoes_if_cancelled(), tuple(unvisited[:UNVISITED_MAX])
            )
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
            name = in_one_line(self.claim.workflow)
            logger.error("on_failure of %s failed for run %s", name, self.claim.run_id)
            return Failed(self._failure().error)
        if isinstance(error, RunCancelled) and self.claim.lease.cancel_requested:
            return self._stamped(Cancelled())
        if isinstance(error, PayloadUndecodable):
            return self._stamped(Blocked(BlockReason.UNDECODABLE, str(error)))
        again = tried_again(self.claim, self.workflow.options.retry, error)
        return again or self._final(error)

    def interrupted(self) -> Outcome:
        """The outcome after the worker cancelled the task: what the lease says, else handed back unharmed."""
        if self.flow.misuse is not None:
            return self._final(self.flow.misuse)
        with suppress(Unwind):
            self.flow.require_live()
        return Released() if self.flow.outcome is None else self._stamped(self.flow.outcome)

    # --- branches that lost a race -------------------------------------------------------------

    def has_losers(self, outcome: Outcome) -> bool:
        """Whether there is something to settle before ``outcome`` may stand."""
        match outcome:
            case Lost() | Released() | Paused() | Blocked() | Ending(phase=Phase.COMPENSATING):
                # The next claim finds in the journal what is owed.
                return False
            case _:
                return bool(self.flow.losers) or (self.claim.phase == Phase.FORWARD and owes_losers(self.flow))

    def settling(self, outcome: Outcome) -> Decisions[None]:
        """To be driven after the function has ended with ``outcome``."""
        self.flow.outcome = None
        # How the function ended stands, and the deadline binds none of what is left to be undone.
        self.flow.run = replace(self.flow.run, deadline_at=None)
        return settle_losers(self.flow, self._function(), goes_on=isinstance(outcome, Suspended | Retried))

    def settled(self, outcome: Outcome, error: BaseException | None = None) -> Outcome:
        """The outcome, where it was ``outcome`` before the losers were settled, which raised ``error``."""
        second = self.flow.outcome
        if second is None:
            return outcome if error is None else self.raised(error)
        if not isinstance(second, Suspended):
            return self._stamped(second)
        match outcome:
            case Suspended():
                return together([outcome, second], outcome.waiting_on)
            case Retried():
                return outcome
            case Failed() | Ending():
                # The failure stands, and what is left to undo is undone before it is told.
                return Ending(Phase.COMPENSATING, outcome.error)
            case Completed():
                return replace(second, in_time=True)
            case _:
                return second

    def last_write(self, outcome: Outcome) -> Write | None:
        """What is left to be committed, with the outcome; None where the run is somebody else's."""
        match outcome:
            case Suspended():
                leave_waits(self.flow, outcome.paths)
            case Retried():
                leave_waits(self.flow)
                note_retry(self.claim, outcome, self.flow.pending)
            case Completed():
                leave_all(self.flow)
        write = self.flow.close()
        write.outcome = outcome
        return None if isinstance(outcome, Lost) else write

    # --- outcomes ------------------------------------------------------------------------------

    def _final(self, error: BaseException) -> Outcome:
        return self._failed(told(error))

    def _failed(self, described: dict[str, Any]) -> Outcome:
        if self.claim.phase == Phase.FORWARD and owes(self.flow):
            return Ending(Phase.COMPENSATING, described)
        if self.workflow.options.on_failure is not None and not self.is_ending:
            return Ending(Phase.ON_FAILURE, described)
        return Failed(described)

    def _undoes_if_cancelled(self) -> bool:
        if self.claim.phase != Phase.FORWARD:
            return False
        return owes(self.flow) if self.workflow.options.compensate_on_cancel else owes_losers(self.flow)

    def _undone(self, errors: dict[str, Any]) -> Outcome:
        """The outcome after the compensations: what the run was to end with, and what could not be undone."""
        if self.claim.pending_error is None:
            return Cancelled({"type": "CompensationFailed", "not_undone": errors} if errors else None)
        described = self._failure().error
        return self._failed({**described, "not_undone": errors} if errors else described)

    def _stamped(self, outcome: Outcome) -> Outcome:
        match outcome:
            case Failed(error):
                return self._failed(error)
            case Cancelled() if self._undoes_if_cancelled():
                return Ending(Phase.COMPENSATING)
            case Blocked(reason, text):
                return Blocked(reason, text, self.workflow.fingerprint, self._undoes_if_cancelled())
            case _:
                return outcome


def _not_visited(paths: Sequence[str]) -> str:
    several = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return (
        f"The function returned without coming to {paths[0]!r}{several}, which the journal has. "
        "Say ctx.removed() for what the code no longer has."
    )


def _no_hook(failure: RunFailed) -> None:
    return None

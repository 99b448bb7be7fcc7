"""Would this run go on with this code? Its journal is replayed; no step runs and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync

from ..client.recorded import Recorded
from ..conf import durable_settings
from ..core.async_context import AsyncContext
from ..core.context import Context
from ..core.flow.executing import enter_run, leave_run
from ..core.flow.lease import Lease
from ..core.flow.run_info import RunInfo
from ..core.journal.culprits import JOURNALED
from ..core.journal.journal import MemoryJournal
from ..core.journal.outcomes import Suspended
from ..core.journal.states import EntryStatus, Kind, Phase
from ..core.kinds.compensation import find_undos
from ..core.payloads.codec import decode
from ..core.payloads.failures import describe, short
from ..core.probing import Probe
from ..exceptions import InvalidInput, PayloadUndecodable, RunCancelled, SuspensionSwallowed
from ..workflows.definition import Workflow
from .replay_drivers import AsyncReplayDriver, ReplayDriver

Workflows = Mapping[str, Workflow[Any, Any]]
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Reason(StrEnum):
    """Why a run would not go on as it began."""

    UNKNOWN_WORKFLOW = "unknown_workflow"
    UNDECODABLE = "undecodable"
    DIVERGED = "diverged"
    """An entry of another kind, a map of other items: the run would be blocked."""
    NEW_CALL = "new_call"
    """The code comes to something new where the journal goes on with something else."""
    UNVISITED = "unvisited"
    """The code went past something that is journaled."""
    RAISED = "raised"
    """The function raises, and not since something that is journaled failed."""


@dataclass(slots=True, frozen=True)
class Divergence:
    """One run that would diverge: where (a path, empty for the run itself), why, and a sentence for people."""

    run_id: UUID
    workflow: str
    path: str
    reason: Reason
    text: str


def replay(recorded: Recorded, workflows: Workflows) -> Divergence | None:
    """The first thing in which the code of ``workflows`` does not fit the run, or None."""
    workflow = workflows.get(recorded.workflow)
    if workflow is None:
        text = "No workflow here has this name. Say aliases=[…] where it was renamed."
        return _divergence(recorded, "", Reason.UNKNOWN_WORKFLOW, text)
    if recorded.unreadable:
        return _divergence(recorded, "", Reason.UNDECODABLE, recorded.unreadable)
    if recorded.phase == Phase.ON_FAILURE:
        return None  # the function is not called again
    try:
        call = _read_input(recorded, workflow)
    except (PayloadUndecodable, InvalidInput) as error:
        return _divergence(recorded, "", Reason.UNDECODABLE, str(error))
    return _Replay(recorded, workflow, call).run()


def _read_input(recorded: Recorded, workflow: Workflow[Any, Any]) -> Call:
    if recorded.input is None:
        raise PayloadUndecodable("the input is gone")
    return workflow.signature.read(recorded.workflow, recorded.input)


def _divergence(recorded: Recorded, path: str, reason: Reason, text: str) -> Divergence:
    return Divergence(recorded.run_id, recorded.workflow, path, reason, text)


class _Replay:
    """One run and its function, up to where the journal ends."""

    def __init__(self, recorded: Recorded, workflow: Workflow[Any, Any], call: Call) -> None:
        self._recorded = recorded
        self._workflow = workflow
        self._args, self._kwargs = call
        self._flow = _probe(recorded, workflow)

    def run(self) -> Divergence | None:
        token = enter_run(self._flow)
        try:
            if self._workflow.is_async:
                # Not in a loop of this thread: what its code asks of the database would go to a thread with a
                # connection of its own, which nobody keeps from writing.
                return self._ended(async_to_sync(self._arun)())
            else:
                self._run()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._ended(error)
        finally:
            leave_run(token)
        return self._ended(None)

    def _run(self) -> None:
        drive = ReplayDriver(self._flow)
        if self._is_compensating:
            drive(find_undos(self._flow, self._body))
        else:
            self._body(Context(self._flow, drive))

    async def _arun(self) -> BaseException | None:
        """What the code raised: as a value, since asyncio gives some errors a meaning of its own."""
        drive = AsyncReplayDriver(self._flow)
        try:
            if self._is_compensating:
                await drive(find_undos(self._flow, self._body))
            else:
                await self._body(AsyncContext(self._flow, drive))
        except BaseException as error:
            return error
        return None

    def _body(self, ctx: Any) -> Any:
        return self._workflow.fn(ctx, *self._args, **self._kwargs)

    @property
    def _is_compensating(self) -> bool:
        return self._recorded.phase == Phase.COMPENSATING

    # --- what its end means --------------------------------------------------------------------

    def _ended(self, error: BaseException | None) -> Divergence | None:
        flow, trail, path = self._flow, self._flow.trail, self._flow.trail.path
        if error is not None:
            flow.raised(error)
        fault = trail.fault or flow.misuse
        if isinstance(fault, PayloadUndecodable):
            return self._told(path, Reason.UNDECODABLE, f"{path!r}: {fault}")
        if fault is not None:
            return self._raised(fault, [])
        if trail.blocked is not None:
            return self._told(path, Reason(trail.blocked.reason), trail.blocked.text)
        if self._is_compensating:
            return None if error is None or flow.outcome is not None else self._raised(error, [])
        if error is None and isinstance(flow.outcome, Suspended):
            return self._told(path, Reason.RAISED, str(SuspensionSwallowed(path)))
        left_out = flow.left_out()
        if error is not None and flow.outcome is None:
            return self._raised(error, left_out)
        return self._rested(left_out) if left_out else None

    def _raised(self, error: BaseException, left_out: Sequence[str]) -> Divergence | None:
        if not left_out and self._is_expected(error):
            return None
        past = f" It did not come by {_list(left_out)}, which the journal has." if left_out else ""
        path = self._flow.trail.path
        after = f"after {path!r}" if path else "at its beginning"
        return self._told(path, Reason.RAISED, f"The function raises {short(error)}, {after}.{past}")

    def _is_expected(self, error: BaseException) -> bool:
        """Whether the journal says that the function ends so, or it did the last time."""
        last = self._recorded.entries.get(self._flow.trail.path)
        if isinstance(error, JOURNALED) or (last is not None and last.status == EntryStatus.FAILED):
            return True
        if isinstance(error, RunCancelled) and self._recorded.is_cancelling:
            return True
        try:
            before = decode(self._recorded.error or "{}")
        except PayloadUndecodable:
            return False
        return isinstance(before, dict) and before.get("type") == describe(error)["type"]

    def _rested(self, left_out: Sequence[str]) -> Divergence:
        first, news = left_out[0], self._flow.trail.news
        for path, kind in news:
            if first.startswith(path[: path.rfind("/") + 1]):
                return self._told(path, Reason.NEW_CALL, _new_call(path, kind, left_out))
        ends = "returns" if self._flow.outcome is None else f"comes to a rest at {self._flow.trail.path!r}"
        text = (
            f"The function {ends} without having come by {_list(left_out)}, which the journal has. "
            "Say ctx.removed() for what the code no longer has."
        )
        return self._told(first, Reason.UNVISITED, text)

    def _told(self, path: str, reason: Reason, text: str) -> Divergence:
        return _divergence(self._recorded, path, reason, text)


def _probe(recorded: Recorded, workflow: Workflow[Any, Any]) -> Probe:
    run = RunInfo(
        run_id=recorded.run_id,
        workflow=recorded.workflow,
        attempt=recorded.attempt,
        root_id=recorded.root_id,
        max_payload_bytes=durable_settings().MAX_PAYLOAD_BYTES,
    )
    # At the beginning of the run's time: whatever it waits for has not come, and nothing goes on past a wait.
    journal = MemoryJournal(dict(recorded.entries), now=lambda: recorded.created_at)
    lease = Lease(recorded.run_id, recorded.run_id, float("inf"), cancel_requested=recorded.is_cancelling)
    return Probe(run, journal, lease, workflow.options.step_retry)


def _new_call(path: str, kind: Kind, left_out: Sequence[str]) -> str:
    return (
        f"The function comes to the new {kind} {path!r} and has not come by {_list(left_out)}, which the journal has. "
        "Put what is new behind ctx.version(), so that only runs that are not past it come to it; "
        "a name that was changed needs its old name back, or ctx.removed() for it."
    )


def _list(paths: Sequence[str]) -> str:
    return repr(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")

"""Failure as data: the last error of a step or of a block comes back as a value, and the run goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast
from uuid import UUID

from ...exceptions import BlockFailed, PayloadError, StepFailed
from ..flow.effects import Decisions, Raised, Returned
from ..flow.executing import executing_flow
from ..flow.flow import Flow
from ..flow.scopes import Body, enter, revisit
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode
from ..payloads.failures import type_name
from ..payloads.refusals import Refusal
from ..payloads.tags import register_tag
from .error_data import described
from .reasons import is_rollback, reason_of

ADDED = ("reason", "step")
"""What the ``error`` of a step's outcome has, and that of its ``failure`` has not."""
NOBODYS = UUID(int=0)
"""Stands for the run of a failure that was made outside of one."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """``value`` where ``ok``, else ``error``: ``type``, ``message``, ``traceback`` of what was raised last.

    It also has ``reason``: ``critical`` (NonRetriableError), ``timeout``, else ``exhausted``. ``failure`` is the same
    as an exception, to raise or to ``raise … from``: then an operator's resume knows what to try again, also where it
    came out of a branch, a block or a loop. What failed in another run, such as a child, is tried again there only.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"arbitrary_types_allowed": True}
    """As that of ``Event``."""

    ok: bool
    value: Any = None
    error: dict[str, Any] | None = None
    failure: StepFailed | BlockFailed | None = field(default=None, repr=False, compare=False)


def _outcome_to_data(outcome: Outcome) -> dict[str, Any]:
    data = {"ok": outcome.ok, "value": outcome.value, "error": outcome.error}
    return data if outcome.failure is None else {**data, "failure": _failure_to_data(outcome.failure, outcome.error)}


def _failure_to_data(failure: StepFailed | BlockFailed, told: dict[str, Any] | None) -> dict[str, Any]:
    if type(failure) is StepFailed:
        data: dict[str, Any] = {"step": failure.step, "attempts": failure.attempts}
    elif type(failure) is BlockFailed:
        data = {"block": failure.path}
    else:
        name = type_name(type(failure))
        raise Refusal(f"its failure, a {name}, cannot be stored; those that try_step and try_block give can be")
    flow = executing_flow()
    data["run"] = failure.run_id or (NOBODYS if flow is None else flow.run.run_id)
    # As a rule the outcome tells all of it.
    is_told = list(failure.error.items()) == list(_error_of(data, told).items())
    return data if is_told else {**data, "error": failure.error}


def _error_of(data: dict[str, Any], told: dict[str, Any] | None) -> dict[str, Any]:
    """The error of the failure that ``data`` stands for, where it does not say so itself."""
    told = told or {}
    return told if "block" in data else {key: value for key, value in told.items() if key not in ADDED}


def _outcome_from(data: dict[str, Any]) -> Outcome:
    ok, value, error, failure = data["ok"], data["value"], data["error"], data.get("failure")
    if not isinstance(ok, bool) or not isinstance(error, dict | None):
        raise TypeError("a bool and an error expected")
    return Outcome(ok, value, error, None if failure is None else _failure_from(failure, error))


def _failure_from(data: dict[str, Any], told: dict[str, Any] | None) -> StepFailed | BlockFailed:
    error = data.get("error", _error_of(data, told))
    path = data["step"] if "step" in data else data["block"]
    if not isinstance(path, str) or not isinstance(data["run"], UUID) or not isinstance(error, dict):
        raise TypeError("a path, a run and an error expected")
    failure = StepFailed(path, data["attempts"], error) if "step" in data else BlockFailed(path, error)
    failure.run_id = None if _is_own(data["run"], path, error) else data["run"]
    return failure


def _is_own(run_id: UUID, path: str, error: dict[str, Any]) -> bool:
    """Whether this code is part of the run that failed there, or of a fork that has it from that one: forks of forks
    do not know of each other, but have the very error."""
    flow = executing_flow()
    if flow is None or flow.run.run_id == run_id:
        return flow is not None
    entry = flow.journal.find(path) if flow.run.is_fork else None
    return entry is not None and entry.error is not None and decode(entry.error) == error


register_tag("outcome", Outcome, _outcome_to_data, _outcome_from)


def try_step(decisions: Decisions[Any]) -> Decisions[Outcome]:
    """What the step ``decisions`` ends with. Raises StepFailed only where the step asked for a rollback."""
    try:
        return Outcome(True, (yield from decisions))
    except StepFailed as error:
        if is_rollback(error):
            raise
        return Outcome(False, error=_of_step(error), failure=error)


def _of_step(error: StepFailed) -> dict[str, Any]:
    return {"reason": reason_of(error), "step": error.step, **error.error}


def try_block(flow: Flow, path: str, body: Body) -> Decisions[Outcome]:
    """What ``body(ctx)`` ends with, in a scope of its own. Raises only what asks for a rollback."""
    if not callable(body):
        raise TypeError(f"Block {path!r} takes a function of ctx, not {body!r}.")
    entry = flow.find(path, Kind.BLOCK)
    if entry is not None and entry.status != EntryStatus.OPEN:
        yield from revisit(flow, path, body)
        return _outcome(entry)
    if entry is None:
        flow.require_way()
        flow.record(Entry(path, Kind.BLOCK, EntryStatus.OPEN))
    performed = yield from enter(flow, path, body)
    if isinstance(performed, Raised) and is_rollback(performed.error):
        raise performed.error
    # Not worth a commit of its own: what happened in the block stays so.
    entry = _decided(flow, path, performed)
    flow.record(entry)
    return _outcome(entry)


def _decided(flow: Flow, path: str, performed: Returned | Raised) -> Entry:
    try:
        if isinstance(performed, Returned):
            value = flow.encode(performed.value, f"result of block {path!r}")
            return Entry(path, Kind.BLOCK, EntryStatus.SUCCEEDED, value=value)
        told = described(performed.error)
        if isinstance(performed.error, StepFailed):
            told = {**told, **_of_step(performed.error)}
    except PayloadError as error:
        told = described(error)
    return Entry(path, Kind.BLOCK, EntryStatus.FAILED, error=encode(told))


def _outcome(entry: Entry) -> Outcome:
    if entry.status == EntryStatus.SUCCEEDED:
        return Outcome(True, decode(cast(str, entry.value)))
    error = decode(cast(str, entry.error))
    return Outcome(False, error=error, failure=BlockFailed(entry.path, error))

"""Failure as data: the last error of a step or of a block comes back as a value, and the run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ...exceptions import PayloadError, StepFailed
from ..flow.effects import Decisions, Raised, Returned
from ..flow.flow import Flow
from ..flow.scopes import Body, enter, revisit
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode
from ..payloads.failures import describe
from .joins import described, is_rollback


@dataclass(slots=True, frozen=True)
class Outcome:
    """``value`` where ``ok``, else ``error``: ``type``, ``message``, ``traceback`` of what was raised last.

    The error of a step also has ``reason``: ``exhausted``, ``timeout`` or ``critical`` (NonRetriableError).
    """

    ok: bool
    value: Any = None
    error: dict[str, Any] | None = None


def try_step(decisions: Decisions[Any]) -> Decisions[Outcome]:
    """What the step ``decisions`` ends with. Raises StepFailed only where the step asked for a rollback."""
    try:
        return Outcome(True, (yield from decisions))
    except StepFailed as error:
        if is_rollback(error):
            raise
        return Outcome(False, error=_with_reason(error))


def _with_reason(error: StepFailed) -> dict[str, Any]:
    timed_out = error.error.get("type") == "django_durable.exceptions.StepTimeout"
    return {"reason": "timeout" if timed_out else "exhausted", "step": error.step, **error.error}


def try_block(flow: Flow, path: str, body: Body) -> Decisions[Outcome]:
    """What ``body(ctx)`` ends with, in a scope of its own. Raises only what asks for a rollback."""
    entry = flow.find(path, Kind.BLOCK)
    if entry is not None and entry.status != EntryStatus.OPEN:
        yield from revisit(flow, path, body)
        return _outcome(entry)
    if entry is None:
        flow.require_live()
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
            told = {**told, **_with_reason(performed.error)}
    except PayloadError as error:
        told = describe(error)
    return Entry(path, Kind.BLOCK, EntryStatus.FAILED, error=encode(told))


def _outcome(entry: Entry) -> Outcome:
    if entry.status == EntryStatus.SUCCEEDED:
        return Outcome(True, decode(cast(str, entry.value)))
    return Outcome(False, error=decode(cast(str, entry.error)))

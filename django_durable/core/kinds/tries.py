"""Failure as data: the last error of a step or of a block comes back as a value, and the run goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

from ...exceptions import BlockFailed, PayloadError, StepFailed
from ..flow.effects import Decisions, Raised, Returned
from ..flow.flow import Flow
from ..flow.scopes import Body, enter, revisit
from ..journal.journal import Entry
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode
from ..payloads.tags import register_tag
from .error_data import described
from .reasons import is_rollback, reason_of


@dataclass(slots=True, frozen=True)
class Outcome:
    """``value`` where ``ok``, else ``error``: ``type``, ``message``, ``traceback`` of what was raised last.

    It also has ``reason``: ``critical`` (NonRetriableError), ``timeout``, else ``exhausted``. ``failure`` is the same
    as an exception, to raise or to ``raise … from``: then an operator's resume knows what to try again.
    """

    ok: bool
    value: Any = None
    error: dict[str, Any] | None = None
    failure: StepFailed | BlockFailed | None = field(default=None, repr=False, compare=False)


def _outcome_to_data(outcome: Outcome) -> dict[str, Any]:
    data = {"ok": outcome.ok, "value": outcome.value, "error": outcome.error}
    match outcome.failure:
        case StepFailed(step=path, attempts=attempts):
            data["failure"] = [path, attempts]
        case BlockFailed(path=path):
            data["failure"] = [path]
    return data


def _outcome_from(data: dict[str, Any]) -> Outcome:
    at = data.pop("failure", None)
    outcome = Outcome(**data)
    given: Any = outcome
    if not isinstance(given.ok, bool) or not isinstance(given.error, dict | None):
        raise TypeError("a bool and an error expected")
    return outcome if at is None else replace(outcome, failure=_failure(data["error"], *at))


def _failure(error: dict[str, Any], path: str, attempts: int | None = None) -> StepFailed | BlockFailed:
    return BlockFailed(path, error) if attempts is None else StepFailed(path, attempts, error)


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
            told = {**told, **_of_step(performed.error)}
    except PayloadError as error:
        told = described(error)
    return Entry(path, Kind.BLOCK, EntryStatus.FAILED, error=encode(told))


def _outcome(entry: Entry) -> Outcome:
    if entry.status == EntryStatus.SUCCEEDED:
        return Outcome(True, decode(cast(str, entry.value)))
    error = decode(cast(str, entry.error))
    return Outcome(False, error=error, failure=BlockFailed(entry.path, error))

"""The journal of a run as code outside of it reads it: entry by entry, failures of all kinds told in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.journal.states import Kind
from ..core.payloads.codec import decode
from ..core.payloads.failures import describe
from ..exceptions import JoinError, LoopLimit, PayloadUndecodable, RaceError
from ..models import JournalEntry


@dataclass(slots=True, frozen=True)
class StepInfo:
    """One journal entry, for people. ``error`` is a mapping with ``type``, ``message`` and ``traceback``: a child's
    own, with the ``status`` that it ended in; those of branches and items are in ``errors``. None where nothing was
    raised: a wait that timed out is ``failed`` without one.

    ``undecodable`` says what of ``value`` and ``error`` this code can no longer read, and why; that one is None then.
    """

    path: str
    kind: str
    status: str
    attempts: int
    value: Any
    error: Any
    started_at: datetime
    finished_at: datetime | None
    undecodable: str = ""


def step_info(entry: JournalEntry) -> StepInfo:
    value, no_value = _decoded("value", entry.value)
    error, no_error = _decoded("error", entry.error)
    return StepInfo(
        path=entry.path,
        kind=entry.kind,
        status=entry.status,
        attempts=entry.attempts,
        value=value,
        error=None if error is None else _error(entry, error),
        started_at=entry.started_at,
        finished_at=entry.finished_at,
        undecodable="; ".join(filter(None, (no_value, no_error))),
    )


def _decoded(name: str, text: str | None) -> tuple[Any, str]:
    """What the text stands for, or None and why it cannot be read."""
    try:
        return (None if text is None else decode(text)), ""
    except PayloadUndecodable as error:
        return None, f"{name}: {error.reason}"


def _error(entry: JournalEntry, told: Any) -> Any:
    """What a kind has journaled of its failure, which is no more than a replay needs to raise it again."""
    match entry.kind, told:
        case Kind.CHILD, [str(status), dict(error)]:
            return {"traceback": "", **error, "status": status}
        case Kind.JOIN | Kind.MAP | Kind.RACE, dict(errors) if all(isinstance(one, dict) for one in errors.values()):
            raised = RaceError if entry.kind == Kind.RACE else JoinError
            return {**describe(raised(entry.path, errors)), "errors": errors}
        case Kind.LOOP, int(limit):
            return describe(LoopLimit(entry.path, limit))
        case _:
            return told

"""Undoing, last first: each compensation is a journal entry beside its step, with attempts and retries of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ...exceptions import StepFailed
from ..flow.abandoning import abandon
from ..flow.effects import Decisions
from ..flow.flow import Flow
from ..flow.parts import take_losers
from ..flow.scopes import Body, replay
from ..flow.undoing import UNDO, Undo
from ..journal.losers import is_lost, winners
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason, EntryStatus, Kind
from ..payloads.codec import decode
from ..payloads.failures import short
from .steps import StepOptions, step

logger = logging.getLogger("django_durable.workflow")

SETTLED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)


def owes(flow: Flow, path: str = "") -> bool:
    """Whether something in the scope ``path`` (default: the run) has been done that a compensation would undo."""
    return bool(_owed(flow, f"{path}/" if path else ""))


def owes_losers(flow: Flow) -> bool:
    """Whether that is so in a branch that lost a race: that is due whatever becomes of the run."""
    return bool(_owed_to_losers(flow))


def _owed_to_losers(flow: Flow) -> list[str]:
    owed = _owed(flow, "")
    won = winners(flow.journal.under("")) if owed else {}
    return [path for path in owed if is_lost(path, won)]


def _owed(flow: Flow, scope: str) -> list[str]:
    entries = flow.journal.under(scope)
    undone = {entry.path.removesuffix(UNDO) for entry in entries if entry.kind == Kind.UNDO and entry.status in SETTLED}
    return [entry.path for entry in entries if entry.undo and entry.path not in undone]


def undo_run(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """Find by a replay what there is to undo, and undo it. The errors of those that failed, by their steps' paths."""
    yield from find_undos(flow, body)
    undos, flow.undos = flow.undos, []
    errors = yield from compensate(flow, undos)
    return errors | (yield from settle_losers(flow))


def undo_losers(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """As ``undo_run``, of what was done in branches that lost a race; everything else stands."""
    yield from _come_by(flow, body)
    _require(flow, flow, _owed_to_losers(flow))
    flow.undos = []
    return (yield from settle_losers(flow))


def find_undos(flow: Flow, body: Body) -> Decisions[None]:
    """Replay ``body``, so that ``flow.undos`` has what it did. Ends as blocked where something is not come by."""
    yield from _come_by(flow, body)
    _require(flow, flow, _owed(flow, ""))


def _come_by(flow: Flow, body: Body) -> Decisions[None]:
    probe = flow.part("")
    probe.scope = ""
    yield from replay(flow, probe, body)


def _require(flow: Flow, line: Flow, owed: Sequence[str]) -> None:
    """What is to be undone and ``line`` has not come by cannot be undone by this code."""
    for path in owed:
        if not line.has_seen(path):
            text = f"Step {path!r} has to be undone, but the code does not come to it any more."
            flow.end(Blocked(BlockReason.DIVERGED, text))


def compensate(flow: Flow, undos: Sequence[Undo]) -> Decisions[dict[str, Any]]:
    """Undo these, last first; one that fails is recorded, and the next ones still run. The errors by path."""
    errors: dict[str, Any] = {}
    for undo in sorted(undos, key=lambda undo: undo.seq, reverse=True):
        options = StepOptions(retry=undo.retry)
        try:
            yield from step(flow, undo.path + UNDO, undo.fn, (decode(undo.value),), options, kind=Kind.UNDO)
        except StepFailed as error:
            logger.error("compensation of %r failed, run=%s: %s", undo.path, flow.run.run_id, short(error))
            errors[undo.path] = error.error
    return errors


def settle_losers(flow: Flow) -> Decisions[dict[str, Any]]:
    """Wait for the branches that lost a race and are running still, and undo what losers have done."""
    errors: dict[str, Any] = {}
    yield from take_losers(flow, most=0)
    while flow.losers:
        loser = flow.losers.pop(0)
        abandon(flow, loser.path)
        if owes(flow, loser.path):
            line = flow.part(loser.path)
            # What a line that was stopped has found on its way is found again by this replay, all of it.
            flow.undos = []
            yield from replay(flow, line, loser.body)
            _require(flow, line, _owed(flow, line.scope))
            undos, flow.undos = flow.undos, []
            errors |= yield from compensate(flow, undos)
    return errors

"""Undoing, last first: each compensation is a journal entry beside its step, with attempts and retries of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ...exceptions import StepFailed
from ..flow.effects import Decisions
from ..flow.flow import Flow
from ..flow.parts import take_losers
from ..flow.scopes import Body, replay
from ..flow.undoing import UNDO, Undo
from ..journal.losers import is_lost, winners
from ..journal.marks import standing_in_branches
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


def owes_losers(flow: Flow, path: str = "") -> bool:
    """Whether that is so in a branch that lost a race in there: that is due whatever becomes of the run."""
    scope = f"{path}/" if path else ""
    return bool(_owed_by_losers(flow, scope, winners(flow.journal.under(scope) if path else flow.journal.races())))


def _owed_by_losers(flow: Flow, scope: str, won: Mapping[str, str]) -> list[str]:
    return [path for path in _owed(flow, scope) if is_lost(path, won)] if won else []


def _owed(flow: Flow, scope: str) -> list[str]:
    entries = flow.journal.under(scope)
    undone = {entry.path.removesuffix(UNDO) for entry in entries if entry.kind == Kind.UNDO and entry.status in SETTLED}
    return [entry.path for entry in entries if entry.undo and entry.path not in undone]


def undo_run(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """Find by a replay what there is to undo, and undo it. The errors of those that failed, by their steps' paths."""
    undos = yield from find_undos(flow, body)
    won, standing = winners(flow.journal.races()), standing_in_branches(flow.journal)
    owed = [undo for undo in undos if not (undo.path in standing or is_lost(undo.path, won))]
    errors = yield from compensate(flow, owed)
    return errors | (yield from compensate(flow, [undo for undo in undos if is_lost(undo.path, won)]))


def undo_losers(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """As ``undo_run``, of what was done in branches that lost a race; everything else stands."""
    probe = yield from _come_by(flow, body)
    won = winners(flow.journal.races())
    _require(flow, probe, _owed_by_losers(flow, "", won))
    return (yield from compensate(flow, [undo for undo in probe.undos if is_lost(undo.path, won)]))


def undo_losers_in(flow: Flow, path: str, body: Body) -> Decisions[None]:
    """As ``undo_losers``, of what was done in the scope ``path``, whose code is ``body`` and is over."""
    probe = flow.part(path)
    yield from replay(flow, probe, body)
    # Nobody but this call asks the line, which goes on, for what it has found.
    flow.undos = []
    won = winners(flow.journal.under(probe.scope))
    _require(flow, probe, _owed_by_losers(flow, probe.scope, won))
    yield from compensate(flow, [undo for undo in probe.undos if is_lost(undo.path, won)])


def settle_losers(flow: Flow, body: Body) -> Decisions[None]:
    """Wait for the branches that lost a race and are running still, and undo what losers have done."""
    yield from take_losers(flow, most=0)
    if owes_losers(flow):
        yield from undo_losers(flow, body)


def find_undos(flow: Flow, body: Body) -> Decisions[list[Undo]]:
    """Replay ``body`` for the compensations of what it did. Ends as blocked where something is not come by."""
    probe = yield from _come_by(flow, body)
    _require(flow, probe, _owed(flow, ""))
    return probe.undos


def _come_by(flow: Flow, body: Body) -> Decisions[Flow]:
    """The line of a replay of ``body``. A line that ends has left some of this with the flow; all of it is found."""
    probe = flow.part("")
    probe.scope = ""
    yield from replay(flow, probe, body)
    return probe


def _require(flow: Flow, probe: Flow, owed: Sequence[str]) -> None:
    """What is to be undone and the replay has not come by cannot be undone by this code."""
    for path in owed:
        if not probe.has_seen(path):
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

"""Undoing, last first: each compensation is a journal entry beside its step, with attempts and retries of its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..exceptions import StepFailed
from .codec import decode
from .effects import AwaitBranch, Decisions
from .failures import short
from .flow import Flow
from .outcomes import Blocked
from .scopes import Body, replay
from .states import BlockReason, EntryStatus, Kind
from .steps import StepOptions, step
from .undoing import Undo

logger = logging.getLogger("django_durable.workflow")

UNDO = "%undo"
"""Ends the path of a compensation. Escaped names never hold a bare "%"."""

SETTLED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)


def owes(flow: Flow, path: str = "") -> bool:
    """Whether something in the scope ``path`` (default: the run) has been done that a compensation would undo."""
    return bool(_owed(flow, f"{path}/" if path else ""))


def _owed(flow: Flow, scope: str) -> list[str]:
    entries = flow.journal.under(scope)
    undone = {entry.path.removesuffix(UNDO) for entry in entries if entry.kind == Kind.UNDO and entry.status in SETTLED}
    return [entry.path for entry in entries if entry.undo and entry.path not in undone]


def undo_run(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """Find by a replay what there is to undo, and undo it. The errors of those that failed, by their steps' paths."""
    probe = flow.part("")
    probe.scope = ""
    yield from replay(flow, probe, body)
    _require_all(flow)
    undos, flow.undos = flow.undos, []
    errors = yield from compensate(flow, undos)
    return errors | (yield from settle_losers(flow))


def _require_all(flow: Flow) -> None:
    """What is to be undone and is not come by any more cannot be undone by this code."""
    for path in _owed(flow, ""):
        if not flow.has_seen(path):
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
    from .races import abandon

    errors: dict[str, Any] = {}
    while flow.losers:
        loser = flow.losers.pop(0)
        if loser.running is not None:
            yield AwaitBranch([loser.running])
            flow.absorb(loser.running)
        abandon(flow, loser.path)
        if owes(flow, loser.path):
            yield from replay(flow, flow.part(loser.path), loser.body)
            undos, flow.undos = flow.undos, []
            errors |= yield from compensate(flow, undos)
    return errors

"""Undoing, last first: each compensation is a journal entry beside its step, with attempts and retries of its own.

Whatever is due at a moment is undone in one order, that in which the steps were journaled, backwards: in whichever
line they were done, and whether that one lost a race or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...exceptions import StepFailed
from ..flow.effects import Decisions
from ..flow.flow import Flow
from ..flow.looking import Looking
from ..flow.parts import take_losers
from ..flow.scopes import Body, look
from ..flow.undoing import UNDO, Undo
from ..journal.losers import is_lost
from ..journal.marks import standing_in_branches
from ..journal.outcomes import Blocked
from ..journal.states import BlockReason, EntryStatus, Kind
from ..payloads.codec import decode
from .steps import StepOptions, step

logger = logging.getLogger("django_durable.workflow")

SETTLED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)


def owes(flow: Flow) -> bool:
    """Whether something has been done that a compensation would undo."""
    return bool(owed_in(flow))


def owes_losers(flow: Flow) -> bool:
    """Whether that is so in a branch that lost a race: that is due whatever becomes of the run."""
    # Most runs have no race: their journals are not looked through.
    won = flow.journal.of(EntryStatus.SUCCEEDED, kind=Kind.RACE)
    return bool(won) and any(is_lost(path, flow.journal.find) for path in owed_in(flow))


def owed_in(flow: Flow, path: str = "") -> list[str]:
    """The steps in the scope ``path`` (default: the run) that are done, and that a compensation would undo."""
    if not flow.journal.has_undo:
        return []
    entries = flow.journal.under(f"{path}/" if path else "")
    undone = {entry.path.removesuffix(UNDO) for entry in entries if entry.kind == Kind.UNDO and entry.status in SETTLED}
    return [entry.path for entry in entries if entry.undo and entry.path not in undone]


def undo_run(flow: Flow, body: Body) -> Decisions[dict[str, Any]]:
    """Find by a replay what there is to undo, and undo it. The errors of those that failed, by their steps' paths."""
    return (yield from compensate(flow, (yield from find_undos(flow, body))))


def undo_losers(flow: Flow, body: Body, *, goes_on: bool = False) -> Decisions[dict[str, Any]]:
    """As ``undo_run``, of what was done in branches that lost a race; everything else stands.

    ``goes_on``: the run does, and what its code does not come to yet, since a resume has opened what is before that, is
    left until it does.
    """
    undos = yield from _find(flow, {"": body}, lambda path: is_lost(path, flow.journal.find), goes_on)
    return (yield from compensate(flow, undos))


def undo_losers_in(flow: Flow, bodies: Mapping[str, Body]) -> Decisions[None]:
    """As ``undo_losers``, of what was done in these scopes, which are over: their code by their paths."""
    undos = yield from _find(flow, bodies, lambda path: is_lost(path, flow.journal.find))
    yield from compensate(flow, undos)


def settle_losers(flow: Flow, body: Body, *, goes_on: bool = False) -> Decisions[None]:
    """Wait for the branches that lost a race and are running still, and undo what losers have done."""
    yield from take_losers(flow, most=0)
    if owes_losers(flow):
        yield from undo_losers(flow, body, goes_on=goes_on)


def find_undos(flow: Flow, body: Body) -> Decisions[list[Undo]]:
    """Replay ``body`` for the compensations of what it did. Ends as blocked where the code does not name one."""
    standing = standing_in_branches(flow.journal)
    return (yield from _find(flow, {"": body}, lambda path: path not in standing))


def _find(
    flow: Flow, bodies: Mapping[str, Body], is_due: Callable[[str], bool], goes_on: bool = False
) -> Decisions[list[Undo]]:
    """The compensations of what is due in these scopes: those too that are through, as their errors are to be told."""
    undos: list[Undo] = []
    for path, body in bodies.items():
        probe = flow.part(path)
        if not path:
            probe.scope = ""
        due = [entry.path for entry in flow.journal.under(probe.scope) if entry.undo and is_due(entry.path)]
        looking = Looking(due)
        yield from look(flow, probe, body, looking)
        is_later = goes_on and probe.outcome is not None
        owed = (owed for owed in owed_in(flow, path) if is_due(owed))
        _require(flow, probe, looking.last, [owed for owed in owed if not is_later or probe.has_seen(owed)])
        undos += [undo for undo in probe.undos if is_due(undo.path)]
    return undos


def _require(flow: Flow, probe: Flow, last: str, owed: Sequence[str]) -> None:
    """What is to be undone and the replay has found no compensation for cannot be undone by this code."""
    found = {undo.path for undo in probe.undos}
    for path in owed:
        if path not in found:
            lack = "gives it no compensation any more" if probe.has_seen(path) else _went(probe, last)
            flow.end(Blocked(BlockReason.DIVERGED, f"Step {path!r} has to be undone, but the code {lack}."))


def _went(probe: Flow, last: str) -> str:
    """What the code did instead of coming to a step."""
    if not last:
        where = "it comes to nothing that is journaled"
    elif probe.outcome is None:
        where = f"it ends after {last!r}"
    else:
        where = f"it cannot go on at {last!r}, of which the journal has no result"
    return f"does not come to it any more: {where}"


def compensate(flow: Flow, undos: Sequence[Undo]) -> Decisions[dict[str, Any]]:
    """Undo these, last first; one that fails is recorded, and the next ones still run. The errors by path."""
    errors: dict[str, Any] = {}
    for undo in sorted(undos, key=lambda undo: undo.seq, reverse=True):
        options = StepOptions(retry=undo.retry)
        try:
            yield from step(flow, undo.path + UNDO, undo.fn, (decode(undo.value),), options, kind=Kind.UNDO)
        except StepFailed as error:
            # Why stands in the journal: who redacts errors cannot be asked here.
            logger.error("compensation of %r failed, run=%s", undo.path, flow.run.run_id)
            errors[undo.path] = error.error
    return errors

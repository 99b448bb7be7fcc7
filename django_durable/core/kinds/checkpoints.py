"""Points of no return."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from ..flow.effects import Decisions, Persist
from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.losers import is_lost
from ..journal.marks import branch_at_stake, made_to_stand, marks_at_stake
from ..journal.paths import above
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import encode
from .turns import forget_turns


def checkpoint(flow: Flow, path: str) -> Decisions[None]:
    """Nothing that was done before is undone from here on: by this line and by those around it.

    The entries of the steps say so themselves, since the mark leaves the journal with the turn that it lies in. The
    mark names them: a fork from before it is not bound by it. In a branch of a race they say so once that has won.
    """
    if flow.find(path, Kind.MARK) is None:
        if flow.is_looking:
            flow.require_way()
            return
        # Before the other question: a race that is decided in between may have stopped this line.
        branch = branch_at_stake(path, flow.journal.find)
        flow.require_live()
        known = _named_before(flow, branch) if branch else ()
        stand = [entry for entry in _to_stand(flow) if entry.path not in known]
        flow.record(Entry(path, Kind.MARK, EntryStatus.SUCCEEDED, value=encode([entry.path for entry in stand])))
        if not branch:
            _let_stand(flow, stand)
        yield Persist()


def take_marks(flow: Flow, scope: str) -> None:
    """A race is decided: the marks in ``scope`` hold, where no race around that one is open."""
    find = flow.journal.find
    marks = [entry for entry in flow.journal.under(scope) if entry.kind == Kind.MARK]
    if not marks or branch_at_stake(scope, find):
        return
    held = (mark for mark in marks if not (is_lost(mark.path, find) or branch_at_stake(mark.path, find)))
    named = (find(path) for path in sorted(made_to_stand(held)))
    _let_stand(flow, [entry for entry in named if entry is not None and entry.undo and not is_lost(entry.path, find)])


def _let_stand(flow: Flow, stand: Iterable[Entry]) -> None:
    paths = []
    for entry in stand:
        flow.record(replace(entry, undo=False))
        paths.append(entry.path)
    forget_turns(flow, paths)


def _named_before(flow: Flow, branch: str) -> Collection[str]:
    """What earlier marks of the branch name: they hold as soon as this one does, so that it need not say it again. Not
    those of losers in there, which never do."""
    find = flow.journal.find
    marks = (mark for mark, its_branch in marks_at_stake(flow.journal.under(branch), find) if its_branch == branch)
    return made_to_stand(mark for mark in marks if not is_lost(mark.path, find))


def _to_stand(flow: Flow) -> Iterator[Entry]:
    """What this line and those around it have done so far and would undo. A loser is undone whatever becomes of them,
    and branches beside this line have points of no return of their own."""
    owed = [entry for entry in flow.journal.under("") if entry.undo]
    branches = list(_branches_around(flow)) if owed else []
    for entry in owed:
        is_beside = any(entry.path.startswith(scope) and not entry.path.startswith(own) for scope, own in branches)
        if not is_beside and not is_lost(entry.path, flow.journal.find):
            yield entry


def _branches_around(flow: Flow) -> Iterator[tuple[str, str]]:
    """The scopes of the joins and races that this line lies in, each with that of its branch there."""
    for path in above(flow.scope):
        entry = flow.journal.find(path)
        if entry is not None and entry.kind in (Kind.JOIN, Kind.RACE) and flow.scope[len(path)] == "/":
            yield f"{path}/", flow.scope[: flow.scope.index("/", len(path) + 1) + 1]

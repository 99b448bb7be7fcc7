"""Points of no return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from ..flow.effects import Decisions, Persist
from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.losers import is_lost, winners
from ..journal.paths import above
from ..journal.states import EntryStatus, Kind
from ..payloads.codec import decode, encode
from .loops import forget_turns


def checkpoint(flow: Flow, path: str) -> Decisions[None]:
    """Nothing that was done before is undone from here on: by this line and by those around it.

    The entries of the steps say so themselves, since the mark leaves the journal with the turn that it lies in. The
    mark names them: a fork from before it is not bound by it.
    """
    if flow.find(path, Kind.MARK) is None:
        flow.require_live()
        stand = list(_to_stand(flow))
        paths = [entry.path for entry in stand]
        flow.record(Entry(path, Kind.MARK, EntryStatus.SUCCEEDED, value=encode(paths)))
        for entry in stand:
            flow.record(replace(entry, undo=False))
        forget_turns(flow, paths)
        yield Persist()


def _to_stand(flow: Flow) -> Iterator[Entry]:
    """What this line and those around it have done so far and would undo. A loser is undone whatever becomes of them,
    and branches beside this line have points of no return of their own."""
    entries = flow.journal.under("")
    owed = [entry for entry in entries if entry.undo]
    if not owed:
        return
    won, branches = winners(entries), list(_branches_around(flow))
    for entry in owed:
        is_beside = any(entry.path.startswith(scope) and not entry.path.startswith(own) for scope, own in branches)
        if not is_beside and not is_lost(entry.path, won):
            yield entry


def _branches_around(flow: Flow) -> Iterator[tuple[str, str]]:
    """The scopes of the joins and races that this line lies in, each with that of its branch there."""
    for path in above(flow.scope):
        entry = flow.journal.find(path)
        if entry is not None and entry.kind in (Kind.JOIN, Kind.RACE):
            yield f"{path}/", flow.scope[: flow.scope.index("/", len(path) + 1) + 1]


def made_to_stand(marks: Iterable[Entry]) -> set[str]:
    """The paths of the steps that are not undone because of these ``marks``."""
    return {path for mark in marks if mark.value is not None for path in cast(list[str], decode(mark.value))}

"""The turns of loops that are over: which of them stay in the journal, and until when."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..flow.flow import Flow
from ..flow.parts import has_loser_running
from ..journal.journal import Entry
from ..journal.marks import made_to_stand
from ..journal.paths import above
from ..journal.states import EntryStatus, Kind
from .compensation import owes, owes_losers

TURN = "%turn"
"""Ends the path of a turn's own entry. Escaped names never hold a bare "%"."""


def turn_path(path: str, number: int) -> str:
    return f"{path}[{number}]"


@dataclass(slots=True)
class Kept:
    """The turns of the loop at ``path`` that are over and in the journal; oldest first."""

    path: str
    free: list[int] = field(default_factory=list)
    """Those that nobody needs but people, and a fork that begins there."""
    bound: list[int] = field(default_factory=list)
    """Those of which something may have to be undone."""
    lost: list[int] = field(default_factory=list)
    """Those among them in which losers of races, which have ended, have done something."""
    held: list[int] = field(default_factory=list)
    """Those in which the loser of a race is running still: what it does may have to be undone."""

    def take(self, flow: Flow, number: int) -> None:
        scope = turn_path(self.path, number)
        if has_loser_running(flow, scope):
            insort(self.held, number)
        elif not owes(flow, scope):
            insort(self.free, number)
        else:
            insort(self.bound, number)
            if owes_losers(flow, scope):
                insort(self.lost, number)

    def take_lost(self) -> list[int]:
        """Those whose losers are to be undone now, the latest first. Each is taken again when that is done."""
        lost, self.lost = self.lost[::-1], []
        self.bound = [number for number in self.bound if number not in lost]
        return lost

    def prune(self, flow: Flow, history: int) -> None:
        """Drop what is journaled of turns that nobody needs, all but the ``history`` latest ones."""
        held, self.held = self.held, []
        for number in held:
            self.take(flow, number)
        # A point of no return holds for all that was before it: where the oldest is bound still, so are the others.
        while self.bound and not owes(flow, turn_path(self.path, self.bound[0])):
            insort(self.free, self.bound.pop(0))
        while len(self.free) > history:
            _forget(flow, turn_path(self.path, self.free.pop(0)))


def journaled_turns(flow: Flow, path: str, present: int) -> Kept:
    """The turns before the present one that a prune has left in the journal."""
    entries = flow.journal.under(f"{path}[")
    places = {entry.path[len(path) + 1 :].partition("]")[0] for entry in entries}
    kept = Kept(path)
    for place in places:
        # A call of the loop's name with a key is no turn.
        if place.isdecimal() and int(place) < present:
            kept.take(flow, int(place))
    return kept


def forget_turns(flow: Flow, paths: Iterable[str]) -> None:
    """Prune the turns of loops that are over in which these ``paths`` lie, and nothing is to be undone any more."""
    for scope in dict.fromkeys(_turn_that_is_over(flow, path) for path in paths):
        if scope is not None and not (owes(flow, scope) or has_loser_running(flow, scope)):
            _forget(flow, scope)


def _turn_that_is_over(flow: Flow, path: str) -> str | None:
    for scope in above(path):
        entry = flow.journal.find(scope)
        if entry is not None and entry.kind == Kind.LOOP and entry.status != EntryStatus.OPEN:
            return path[: path.index("]", len(scope)) + 1]
    return None


def _forget(flow: Flow, path: str) -> None:
    inside = flow.journal.under(f"{path}/")
    paths = {entry.path for entry in inside if not _is_needed(flow, entry, f"{path}/")}
    if flow.journal.find(path + TURN) is not None:
        paths.add(path + TURN)
    if paths:
        flow.pending.forget(paths)
        flow.journal.forget(paths)


def _is_needed(flow: Flow, entry: Entry, scope: str) -> bool:
    """Whether it is a mark of steps that stay in the journal: it tells a fork from when on they stand."""
    if entry.kind != Kind.MARK:
        return False
    return any(not path.startswith(scope) and flow.journal.find(path) is not None for path in made_to_stand([entry]))

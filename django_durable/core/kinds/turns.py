"""The turns of loops that are over: which of them stay in the journal, and until when."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..flow.flow import Flow
from ..journal.journal import Entry
from ..journal.losers import is_lost
from ..journal.marks import made_to_stand
from ..journal.paths import above
from ..journal.states import EntryStatus, Kind
from .compensation import owed_in

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
    """Those in which the loop's own line has done something that would be undone, should the run fail."""
    lost: list[int] = field(default_factory=list)
    """Those in which losers of races, which have ended, have done something: that is undone in any case. Some of them
    are bound, too."""
    held: list[int] = field(default_factory=list)
    """Those in which the loser of a race is running still: what it does may have to be undone."""

    def take(self, flow: Flow, number: int) -> None:
        scope = turn_path(self.path, number)
        if flow.losers.are_in(scope):
            insort(self.held, number)
            return
        by_losers = _owed_by_losers(flow, scope)
        if any(by_losers):
            insort(self.lost, number)
        if not all(by_losers):
            insort(self.bound, number)
        if not by_losers:
            insort(self.free, number)

    def hold(self, number: int) -> None:
        """This turn stays, whatever is pruned."""
        if number in self.free:
            self.free.remove(number)

    def give_lost(self) -> None:
        """What losers have done is undone."""
        lost, self.lost = self.lost, []
        for number in lost:
            if number not in self.bound:
                insort(self.free, number)

    def prune(self, flow: Flow, history: int) -> None:
        """Drop what is journaled of turns that nobody needs, all but the ``history`` latest ones."""
        held, self.held = self.held, []
        for number in held:
            self.take(flow, number)
        # A point of no return holds for all that was before it, but for losers: where the oldest is bound still, so are
        # the others.
        while self.bound and all(_owed_by_losers(flow, turn_path(self.path, self.bound[0]))):
            if (number := self.bound.pop(0)) not in self.lost:
                self.take(flow, number)
        while len(self.free) > history:
            _forget(flow, turn_path(self.path, self.free.pop(0)))


def _owed_by_losers(flow: Flow, scope: str) -> list[bool]:
    """Of each step in there that would be undone: whether a loser has done it."""
    return [is_lost(path, flow.journal.find) for path in owed_in(flow, scope)]


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
        if scope is not None and not (owed_in(flow, scope) or flow.losers.are_in(scope)):
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
        flow.forget(paths)


def _is_needed(flow: Flow, entry: Entry, scope: str) -> bool:
    """Whether it is a mark of steps that stay in the journal: it tells a fork from when on they stand."""
    if entry.kind != Kind.MARK:
        return False
    return any(not path.startswith(scope) and flow.journal.find(path) is not None for path in made_to_stand([entry]))

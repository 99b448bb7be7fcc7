"""A replay that ends where the journal does: a flow that starts nothing, and tells what its code came to.

A flow that is stopped looks for compensations, and passes by the scopes that hold none. A probe goes into every open
scope, as an attempt would, since it is asked whether the code still fits all that is journaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .flow.flow import Flow, begins_anew
from .flow.scopes import FATAL
from .journal.journal import Entry, Journal
from .journal.outcomes import Blocked, Outcome, Stopped
from .journal.paths import scopes_of
from .journal.states import UNNAMED, EntryStatus, Kind
from .kinds.loops import present_turn
from .names import ON_FAILURE

HARMLESS = frozenset(
    {Kind.VALUE, Kind.GATE, Kind.MARK, Kind.BLOCK, Kind.JOIN, Kind.RACE, Kind.MAP, Kind.LOOP},
)
"""Kinds whose beginning touches nothing outside: where the code has a new one, the replay goes on past it."""
UNDECIDED = (EntryStatus.OPEN, EntryStatus.WAITING, EntryStatus.RETRYING)


@dataclass(slots=True)
class Trail:
    """What all lines of one replay came to."""

    journaled: Set[str]
    """The paths of what there was before: one set for all lines, of which there may be as many as entries."""
    path: str = ""
    """The entry that was asked for last; the one that ended the replay, where an entry did."""
    lines: list[Flow] = field(default_factory=list)
    news: list[tuple[str, Kind]] = field(default_factory=list)
    """Calls that the journal has nothing of, and that would have been begun: where lines ended."""
    blocked: Blocked | None = None
    """Where a line met what an attempt would be blocked for, or a fault of the code: the others do not hide it."""
    fault: BaseException | None = None
    retried: dict[str, Entry] = field(default_factory=dict)
    """What the code came to and is to be tried again. What the journal has behind that was done before a resume opened
    it, and may lie on a way that is not taken any more."""


class Probe(Flow):
    """A flow for replay only. Its parts share its trail: what they saw is not lost where a line ends in the middle."""

    __slots__ = ("_entry", "_is_known", "_kind", "_path", "trail")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parent = self._parent
        self.trail: Trail = parent.trail if isinstance(parent, Probe) else Trail(_paths(self.journal))
        self.trail.lines.append(self)
        self.is_replaying = True
        self._path, self._kind = "", Kind.STEP
        self._entry: Entry | None = None
        self._is_known = False

    def part(self, path: str) -> Probe:
        return Probe(self.run, self.journal, self.lease, self.step_retry, self.random, f"{path}/", self)

    def find(self, path: str, kind: Kind) -> Entry | None:
        self._path, self._kind, self._entry = path, kind, None
        if self.trail.blocked is None and self.trail.fault is None:
            self.trail.path = path
        known = self.journal.find(path)
        self._is_known = known is not None and known.kind == kind
        if known is not None and (known.is_anew or (known.status in UNDECIDED and known.error is not None)):
            self.trail.retried[path] = known
        self._entry = super().find(path, kind)
        # Log lines and the like stay silent: an attempt will say them.
        self.is_replaying = True
        return self._entry

    def require_live(self) -> None:
        """Unwind where an attempt would begin something that the outside could notice."""
        if self._kind in HARMLESS and not self.is_stopped:
            return
        if self._entry is not None and self._entry.status == EntryStatus.WAITING:
            self.suspend(self._entry)
        if self._entry is None and not self._is_known:
            self.trail.news.append((self._path, self._kind))
        self.end(Stopped())

    def end(self, outcome: Outcome) -> NoReturn:
        if isinstance(outcome, Blocked) and self.trail.fault is None:
            self.trail.blocked = self.trail.blocked or outcome
        super().end(outcome)

    def raised(self, error: BaseException) -> None:
        """Take note of what the code of this line has raised."""
        if self.outcome is None and isinstance(error, FATAL) and self.trail.blocked is None:
            self.trail.fault = self.trail.fault or self.misuse or error

    def left_out(self) -> list[str]:
        """What was journaled before, and the code did not come to although it came as far as this."""
        seen = set().union(*(line.seen for line in self.trail.lines))
        turns = dict(_loops_under_way(self.journal.under(""), seen))
        # A loop passes by its turns, those to come too; here the present one is looked at.
        seen -= turns.keys()
        retried = _first_retried(self.trail.retried.values())
        return [
            entry.path
            for entry in self.journal.under("")
            if entry.path in self.trail.journaled
            and entry.kind not in UNNAMED
            and entry.path != ON_FAILURE
            and not {entry.path, *scopes_of(entry.path)} & seen
            and not any(_is_before(entry.path, loop, turn) for loop, turn in turns.items())
            and not begins_anew(entry)
            and not self._is_behind(entry, retried)
        ]

    def _is_behind(self, entry: Entry, retried: Mapping[str, Sequence[tuple[int, str]]]) -> bool:
        """Whether the code comes to ``entry`` only after one of those that are tried again, and not beside it: the
        inmost scope around both tells."""
        return any(
            any(seq <= entry.seq and way != own for seq, way in retried[scope]) and not self._has_branches(scope)
            for scope, own in _ways(entry.path)
            if scope in retried
        )

    def _has_branches(self, scope: str) -> bool:
        entry = self.journal.find(scope[:-1]) if scope.endswith("/") else None
        return entry is not None and entry.kind in (Kind.JOIN, Kind.RACE)


def _paths(journal: Journal) -> frozenset[str]:
    return frozenset(entry.path for entry in journal.under(""))


def _ways(path: str) -> list[tuple[str, str]]:
    """The scopes around ``path``, the outermost (the run) first, and by which one in there it goes on."""
    scopes = ["", *scopes_of(path)]
    return list(zip(scopes, [*scopes[1:], path], strict=True))


def _first_retried(entries: Iterable[Entry]) -> dict[str, list[tuple[int, str]]]:
    """Of those in each scope the first, and the first that goes another way in there: of any number no others matter to
    who asks whether one came before."""
    found: dict[str, list[tuple[int, str]]] = {}
    for entry in sorted(entries, key=lambda entry: entry.seq):
        for scope, way in _ways(entry.path):
            first = found.setdefault(scope, [])
            if not first or (len(first) == 1 and first[0][1] != way):
                first.append((entry.seq, way))
    return found


def _loops_under_way(entries: Iterable[Entry], seen: Set[str]) -> Iterator[tuple[str, int]]:
    """What the paths of their turns begin with, and the number of the present turn: a replay begins with that one."""
    for entry in entries:
        is_removed = f"{entry.path}/" in seen
        if entry.kind == Kind.LOOP and entry.status == EntryStatus.OPEN and entry.path in seen and not is_removed:
            yield f"{entry.path}[", present_turn(entry.value or "")


def _is_before(path: str, loop: str, turn: int) -> bool:
    number = path[len(loop) :].partition("]")[0] if path.startswith(loop) else ""
    return number.isdecimal() and int(number) < turn

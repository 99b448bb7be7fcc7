"""How far a replay goes that only looks for what there is to undo: the one rule, which every kind of call follows.

It goes by what the journal has, records nothing and begins nothing. What the journal lacks need not be the end of it:
code changes under live runs, what a scope comes to is journaled after what was done in it, and an operator's resume
opens what was over. As long as something that is to be undone lies ahead, the line goes on without, where the value of
a call takes nothing to be done (a version, the time, a note, a sleep, a scope whose code comes to its end) or is that
which the call had before the resume. It ends where only the outside knows the value, and where nothing lies ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..journal.journal import TIMED_OUT, Entry
from ..journal.states import EntryStatus, Kind

DECIDED = (EntryStatus.SUCCEEDED, EntryStatus.FAILED)

PASSED_MAX = 1000
"""Calls that the journal has nothing of, and that one look goes on without. Code that waits for the time to come makes
them without end."""


@dataclass(slots=True)
class _Way:
    """What all lines of one look share."""

    owed: set[str]
    """Steps that are to be undone, and that no line has come to so far."""
    passed: int = 0
    last: str = ""


class Looking:
    """One for each scope that is looked through, and for all lines in there."""

    __slots__ = ("_beside", "_scope", "_way")

    def __init__(self, owed: Iterable[str] = (), scope: str = "", way: _Way | None = None) -> None:
        self._way = way or _Way(set(owed))
        self._scope = scope
        self._beside: tuple[tuple[str, str], ...] = ()
        """The scope of the branches around this line, and that of its own, for each that it is in: what is in the
        others it never comes to."""

    def within(self, scope: str) -> Looking:
        """For a scope that is over: what comes after it does not depend on how far its code is looked through."""
        return self._copy(scope, ())

    def beside(self, scopes: str, scope: str) -> Looking:
        """For a branch in ``scope``, one of those in ``scopes``, whose end decides how it goes on after them."""
        return self._copy(self._scope, (*self._beside, (scopes, scope)))

    def come_to(self, path: str) -> None:
        self._way.owed.discard(path)
        self._way.last = path

    @property
    def last(self) -> str:
        """The path that a line came to last; empty: none has come to any."""
        return self._way.last

    @property
    def is_ahead(self) -> bool:
        """Whether something that is to be undone lies ahead."""
        return any(self.ahead)

    @property
    def ahead(self) -> Iterator[str]:
        """The steps that are to be undone and lie ahead."""
        return (path for path in self._way.owed if path.startswith(self._scope) and not self._is_beside(path))

    def may_pass(self) -> bool:
        """Whether a line goes on without a call that the journal has nothing of."""
        self._way.passed += 1
        return self._way.passed <= PASSED_MAX and self.is_ahead

    def _is_beside(self, path: str) -> bool:
        return any(path.startswith(scopes) and not path.startswith(own) for scopes, own in self._beside)

    def _copy(self, scope: str, beside: tuple[tuple[str, str], ...]) -> Looking:
        other = Looking(scope=scope, way=self._way)
        other._beside = beside
        return other


def as_before(entry: Entry) -> Entry:
    """``entry`` with what it had come to before it was to be tried again: what comes after it was built on that."""
    if entry.status in DECIDED or entry.kind == Kind.LOOP:
        # What a loop comes to shows when its turns are gone through, as with all other scopes: these keep no error.
        return entry
    if entry.kind == Kind.STEP and entry.value is not None:
        # It was undone, to be done again.
        return replace(entry, status=EntryStatus.SUCCEEDED)
    if entry.error is None:
        return entry
    return replace(entry, status=EntryStatus.FAILED, error=None if entry.error == TIMED_OUT else entry.error)

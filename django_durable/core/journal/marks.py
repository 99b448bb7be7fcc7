"""Points of no return, as the journal tells: each mark names the steps that it makes stand.

A mark in a branch of a race that nobody has won yet changes nothing so far: should the branch lose, what it did has to
be undone all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from ..payloads.codec import decode
from .journal import Entry, Journal
from .losers import Find, is_lost
from .paths import above
from .states import EntryStatus, Kind


def made_to_stand(marks: Iterable[Entry]) -> set[str]:
    """The paths of the steps that are not undone because of these ``marks``."""
    return {path for mark in marks if mark.value is not None for path in cast(list[str], decode(mark.value))}


def branch_at_stake(path: str, find: Find) -> str:
    """The scope of the branch that ``path`` lies in, of the innermost race that nobody has won yet; empty: of none."""
    branch = ""
    for scope in above(path):
        # What follows in brackets is a race of the same name with a key.
        if path[len(scope)] == "/" and _is_open_race(find(scope)):
            branch = path[: path.index("/", len(scope) + 1) + 1]
    return branch


def _is_open_race(entry: Entry | None) -> bool:
    return entry is not None and entry.kind == Kind.RACE and entry.status == EntryStatus.OPEN


def marks_at_stake(entries: Iterable[Entry], find: Find) -> list[tuple[Entry, str]]:
    """The marks among ``entries`` that hold for nothing outside a branch yet, each with the scope of that branch."""
    marks = ((entry, branch_at_stake(entry.path, find)) for entry in entries if entry.kind == Kind.MARK)
    return [(mark, branch) for mark, branch in marks if branch]


def standing_in_branches(journal: Journal) -> set[str]:
    """The steps that stand where the run ends while races are open: of each branch those before its last mark."""
    standing: set[str] = set()
    for mark, branch in marks_at_stake(journal.under(""), journal.find):
        if not is_lost(mark.path, journal.find):
            standing |= {path for path in made_to_stand([mark]) if path.startswith(branch)}
    return standing

"""Scopes that had succeeded, and whose result told of what has failed: an ``Outcome`` that a branch returned, say.

Where the run ends for such a failure and is resumed, what failed is to be tried again, and the code has to come there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from .journal.journal import Entry
from .journal.losers import Find, is_lost, winner_of
from .journal.paths import above
from .journal.states import EntryStatus, Kind
from .kinds.loops import present_turn
from .kinds.turns import TURN
from .payloads.codec import encode


class OutOfReach(Exception):
    """The code comes there no more, whatever is opened again."""


def reopened(path: str, find: Find) -> list[Entry]:
    """The scopes around ``path`` that had succeeded, as they are once it is to be tried again; the outermost first.

    Raises OutOfReach: a branch that has lost stays so, and a turn of a loop that is over is gone with its state.
    Raises PayloadUndecodable for a damaged journal.
    """
    if is_lost(path, find):
        raise OutOfReach
    return [again for entry, joiner, rest in _around(path, find) for again in _again(entry, joiner, rest, find)]


def ways_to(path: str) -> Iterator[str]:
    """The entries that ``reopened`` asks for."""
    for scope in above(path):
        yield scope
        yield scope + TURN


def _around(path: str, find: Find) -> Iterator[tuple[Entry, str, str]]:
    """The entries of the scopes around ``path``, and how it goes on in each."""
    for scope in above(path):
        if (entry := find(scope)) is not None:
            yield entry, path[len(scope)], path[len(scope) + 1 :]


def _again(entry: Entry, joiner: str, rest: str, find: Find) -> list[Entry]:
    match entry.kind, joiner, entry.status:
        case ((Kind.JOIN | Kind.BLOCK), "/", EntryStatus.SUCCEEDED):
            return [replace(entry, status=EntryStatus.OPEN, value=None)]
        case Kind.RACE, "/", EntryStatus.SUCCEEDED:
            # The winner stays the winner, with what it returns now: see ``kinds.races``.
            return [replace(entry, value=encode([winner_of(entry)]))]
        case Kind.LOOP, "[", EntryStatus.SUCCEEDED:
            beginning = find(f"{entry.path}[{rest.partition(']')[0]}]{TURN}")
            if beginning is None:
                raise OutOfReach
            return [replace(entry, status=EntryStatus.OPEN, value=beginning.value)]
        case Kind.LOOP, "[", _:
            if rest.partition("]")[0] != str(present_turn(cast(str, entry.value))):
                raise OutOfReach
    return []

"""Which branches lost a race, as the journal tells: what they did is undone whatever becomes of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...exceptions import PayloadUndecodable
from ..names import make_path
from ..payloads.codec import first_of
from .journal import Entry
from .paths import above
from .states import EntryStatus, Kind

Find = Callable[[str], Entry | None]
"""The entry at a path."""


def winner_of(race: Entry | None) -> str | None:
    """Who won; None where it is no race, or one that nobody has won. What the winner returned is not looked at: this
    code may not know its type any more, and whoever needs it says so."""
    if race is None or race.kind != Kind.RACE or race.status != EntryStatus.SUCCEEDED or race.value is None:
        return None
    try:
        name: Any = first_of(race.value)
    except PayloadUndecodable:
        return None
    return name if type(name) is str else None


def is_lost(path: str, find: Find) -> bool:
    """Whether ``path`` lies in a branch that lost a race."""
    return next(races_lost(path, find), None) is not None


def races_lost(path: str, find: Find) -> Iterator[str]:
    """The races that are decided, and in which ``path`` lies in another branch than the winner's; outermost first."""
    for race in above(path):
        # What follows in brackets is a race of the same name with a key.
        winner = winner_of(find(race)) if path[len(race)] == "/" else None
        if winner is not None and not path.startswith(make_path(f"{race}/", winner) + "/"):
            yield race

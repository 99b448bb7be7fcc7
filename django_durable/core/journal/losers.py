"""Which branches lost a race, as the journal tells: what they did is undone whatever becomes of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ..names import make_path
from ..payloads.codec import decode
from .journal import Entry
from .paths import above
from .states import EntryStatus, Kind


def winners(entries: Iterable[Entry]) -> dict[str, str]:
    """Who won, by the paths of the races that are decided."""
    races = (entry for entry in entries if entry.kind == Kind.RACE and entry.status == EntryStatus.SUCCEEDED)
    return {race.path: decode(cast(str, race.value))[0] for race in races}


def is_lost(path: str, won: Mapping[str, str]) -> bool:
    """Whether ``path`` lies in a branch that lost one of these races; ``won`` is of ``winners``."""
    return any(race in won and _is_beside(path, race, won[race]) for race in above(path))


def _is_beside(path: str, race: str, winner: str) -> bool:
    """Whether ``path``, which begins with ``race``, lies in another branch than the winner's. What follows in brackets
    is a race of the same name with a key."""
    return path[len(race)] == "/" and not path.startswith(make_path(f"{race}/", winner) + "/")

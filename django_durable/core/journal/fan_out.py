"""How far a map of children has come, as its entry says, and when there is something to do for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ..payloads.codec import decode, encode
from .digests import Digests
from .journal import Entry, Journal
from .states import TERMINAL, Kind

WAKES = 200
"""A map that has a place for each hundred of its items (2 / WAKES) wakes its parent about so many times, or seldomer;
one with fewer places, each time that half of them are free. The whole journal is read each time."""

LOW_WATER_MAX = 500
"""So many siblings at most are counted at the end of each child."""


@dataclass(slots=True, frozen=True)
class Progress:
    """The value of a map's entry. Which ends are noted, the entries of its items say."""

    count: int
    """How many items there are."""
    started: int = 0
    """Up to which item children were started."""
    again: tuple[int, ...] = ()
    """Those before it whose children are to be started anew."""
    digests: Digests | None = None
    """By which the items are known again. None: of them only the count is known."""

    @classmethod
    def of(cls, value: str | None) -> Progress:
        told = decode(cast(str, value))
        digests = told.get("digests")
        again = tuple(told.get("again", ()))
        return cls(told["count"], told["started"], again, None if digests is None else Digests(**digests))

    @property
    def value(self) -> str:
        told: dict[str, Any] = {"started": self.started, "count": self.count}
        if self.again:
            told["again"] = list(self.again)
        if self.digests is not None:
            told["digests"] = self.digests.data
        return encode(told)

    def difference(self, path: str, items: Sequence[Any]) -> str:
        """What is to be said where the map at ``path``, begun with this, is given other ``items`` now."""
        if self.count != len(items):
            return f"{path!r} was begun with {self.count} items, but the code now gives it {len(items)}."
        return "" if self.digests is None else self.digests.difference(path, items)

    @property
    def left(self) -> list[int]:
        """The items whose children are still to be started, in the order in which they are."""
        return [*self.again, *range(self.started, self.count)]

    def after(self, begun: Sequence[int]) -> Progress:
        """Once children were started for the first of those that were left, ``begun``."""
        started = max(self.started, begun[-1] + 1)
        return replace(self, started=started, again=self.again[len(begun) :])


def item_path(path: str, index: int) -> str:
    return f"{path}[{index}]"


def map_of(path: str) -> str:
    """The path of the map that may have ``path`` as an item; empty for what can be none."""
    return path.rpartition("[")[0] if path.endswith("]") else ""


def is_child_of_map(journal: Journal, path: str) -> bool:
    """Whether the entry at ``path`` says how the child of an item has ended."""
    entry = journal.find(path)
    if entry is None or entry.kind != Kind.CHILD:
        return False
    around = journal.find(map_of(path))
    return around is not None and around.kind == Kind.MAP


def item_entries(journal: Journal, path: str, count: int) -> list[Entry | None]:
    """The entries of the items of the map at ``path``, by index."""
    journaled = {entry.path: entry for entry in journal.under(f"{path}[")}
    return [journaled.get(item_path(path, index)) for index in range(count)]


def under_way(journal: Journal, entry: Entry) -> list[int]:
    """The items whose children were started, and of which the journal does not say how they ended."""
    progress = Progress.of(entry.value)
    again = set(progress.again)
    known = item_entries(journal, entry.path, progress.started)
    return [index for index, item in enumerate(known) if item is None and index not in again]


def living(journal: Journal, path: str, indexes: Iterable[int]) -> list[int]:
    """Those of these items whose children have not ended, as far as this process has heard."""
    states = ((index, journal.inbox.child(item_path(path, index))) for index in indexes)
    return [index for index, state in states if state is None or state.status not in TERMINAL]


def may_go_on(journal: Journal, entry: Entry) -> bool:
    """Whether what the map waits for has come."""
    return len(living(journal, entry.path, under_way(journal, entry))) <= low_water(entry)


# --- the wait ----------------------------------------------------------------------------------


def low_water(entry: Entry) -> int:
    """The map waits until no more of its children are alive than so many: ``awaits`` says it, where it is not zero."""
    return int(entry.awaits or 0)


def low_water_mark(max_parallel: int | None, left: int, count: int) -> int:
    """With how many alive it is worth to come back, where ``left`` of ``count`` are still to be started: when one has
    ended, where there are few items; of many, when half of those that may be alive have."""
    if max_parallel is None or not left:
        return 0
    ended = max(1, min(max_parallel // 2, count // WAKES))
    return min(max_parallel - ended, LOW_WATER_MAX)


# --- runs that begin with a part of it -----------------------------------------------------------


def started_anew(value: str, forgotten: Collection[int]) -> str:
    """The ``value`` of a map whose children at these items have been forgotten, so that it starts others for them."""
    progress = Progress.of(value)
    return replace(progress, again=tuple(sorted({*forgotten, *progress.again}))).value


def of_another_run(value: str | None) -> str:
    """The ``value`` of a map in the journal that another run begins with. Its items may hold what only the old run was:
    its id, what it drew, events that were sent to it. Of them nothing but their number is known."""
    return replace(Progress.of(value), digests=None).value


def with_only(value: str, kept: Collection[int]) -> str:
    """The ``value`` of a map that knows how the items ``kept`` have ended, and starts all others."""
    started = max(kept, default=-1) + 1
    again = tuple(index for index in range(started) if index not in kept)
    return replace(Progress.of(value), started=started, again=again).value

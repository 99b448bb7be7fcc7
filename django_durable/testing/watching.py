"""The way that an attempt takes through its journal, held against the way of the attempt before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..core.journal.fan_out import map_of
from ..core.journal.journal import Entry
from ..core.journal.states import Kind
from ..core.kinds.turns import TURN

Way = dict[str, list[str]]
"""The paths that were asked for, in order, by the scope that they are in: branches go side by side."""


def way_through(entries: Mapping[str, Entry]) -> Way:
    """The way on which these were journaled."""
    way: Way = defaultdict(list)
    for path, entry in sorted(entries.items(), key=lambda item: item[1].seq):
        if entry.kind != Kind.UNDO and not path.endswith(TURN) and not is_item(path, entries):
            way[scope_of(path)].append(path)
    return way


def scope_of(path: str) -> str:
    return path.rpartition("/")[0]


def is_item(path: str, entries: Mapping[str, Entry]) -> bool:
    """Whether ``path`` is that of an item of a map: these have no order, and are passed by once all are over."""
    around = entries.get(map_of(path))
    return around is not None and around.kind == Kind.MAP


class Watch:
    """Follows one attempt. ``before`` is the way of the attempt before it, if known; ``difference`` the first one."""

    def __init__(self, before: Way | None) -> None:
        self.way: Way = defaultdict(list)
        self.difference = ""
        self._before = before or {}
        self._asked: set[str] = set()

    def asked(self, path: str) -> None:
        if path in self._asked:
            # Gone through again: by a branch that had waited, or to find what there is to undo.
            return
        self._asked.add(path)
        scope = scope_of(path)
        expected, position = self._before.get(scope, []), len(self.way[scope])
        self.way[scope].append(path)
        if position < len(expected) and expected[position] != path and not self.difference:
            self.difference = f"it asked for {path!r} where {expected[position]!r} came before."

    def returned(self) -> None:
        """The function has returned: where it has been, it must have been everywhere."""
        for scope, expected in self._before.items():
            has_been = len(self.way.get(scope, []))
            if (not scope or has_been) and has_been < len(expected) and not self.difference:
                self.difference = f"it returned without asking for {expected[has_been]!r}, which came before."

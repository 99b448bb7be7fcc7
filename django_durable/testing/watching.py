"""The way that an attempt takes through its journal, held against the way of the attempt before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

Way = dict[str, list[str]]
"""The paths that were asked for, in order, by the scope that they are in: branches go side by side."""


def way_of(paths: Iterable[str]) -> Way:
    way: Way = defaultdict(list)
    for path in paths:
        way[scope_of(path)].append(path)
    return way


def scope_of(path: str) -> str:
    return path.rpartition("/")[0]


class Watch:
    """Follows one attempt. ``before`` is the way of the attempt before it, if known; ``difference`` the first one."""

    def __init__(self, before: Way | None) -> None:
        self.way: Way = defaultdict(list)
        self.difference = ""
        self._before = before or {}

    def asked(self, path: str) -> None:
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

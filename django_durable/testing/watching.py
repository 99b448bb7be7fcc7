"""The way that an attempt takes through its journal, held against the way of the attempt before it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..core.journal import Entry, MemoryJournal
from ..core.lease import Lease

Way = dict[str, list[str]]
"""The paths that were asked for, in order, by the scope that they are in: branches go side by side."""


def way_of(paths: Iterable[str]) -> Way:
    way: Way = defaultdict(list)
    for path in paths:
        way[scope_of(path)].append(path)
    return way


def scope_of(path: str) -> str:
    return path.rpartition("/")[0]


class WatchedJournal(MemoryJournal):
    """A claim's journal that remembers what it was asked for. ``before`` is the way of the attempt before, if known.

    At the first difference the lease is given up, so that the attempt starts nothing more.
    """

    def __init__(self, journal: MemoryJournal, lease: Lease, before: Way | None, *, is_async: bool) -> None:
        vars(self).update(vars(journal))
        self.way: Way = defaultdict(list)
        self.difference = ""
        self._lease = lease
        self._before = before
        self._is_async = is_async
        self._task: Any = None

    def find(self, path: str) -> Entry | None:
        if self._is_main_task():
            self._note(path)
        return super().find(path)

    def left_out(self) -> str:
        """What is wrong with a function that has returned by now: where it has been, it must have been everywhere."""
        for scope, expected in (self._before or {}).items():
            if (not scope or scope in self.way) and len(self.way[scope]) < len(expected):
                missed = expected[len(self.way[scope])]
                return f"it returned without asking for {missed!r}, which came before."
        return ""

    def _is_main_task(self) -> bool:
        """Tasks that the workflow starts take turns as they like, on replay others than before: they are not judged."""
        if not self._is_async:
            return True
        task = asyncio.current_task()
        self._task = self._task or task
        return task is self._task

    def _note(self, path: str) -> None:
        scope = scope_of(path)
        expected = (self._before or {}).get(scope, [])
        position = len(self.way[scope])
        self.way[scope].append(path)
        if position < len(expected) and expected[position] != path and not self.difference:
            self.difference = f"it asked for {path!r} where {expected[position]!r} came before."
            self._lease.lose()

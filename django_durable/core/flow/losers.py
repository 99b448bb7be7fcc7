"""Branches that lost a race and are running still: one register for all lines of an attempt, as any of them may have to
know whether something is still done in a scope."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..journal.paths import above

if TYPE_CHECKING:
    from .flow import Flow


class Losers:
    """What they have done the journal knows; here is that their code is not over."""

    __slots__ = ("_mutex", "_paths")

    def __init__(self) -> None:
        self._paths: dict[Flow, str] = {}
        """Their branches, by their lines."""
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: str, line: Flow) -> None:
        """The branch at ``path`` has lost; ``line`` runs its code."""
        with self._mutex:
            self._paths[line] = path

    def path_of(self, line: Flow) -> str:
        return self._paths[line]

    def remove(self, line: Flow) -> None:
        """Its code is over, and what it did is taken over."""
        with self._mutex:
            del self._paths[line]

    def others(self, lines: Collection[Flow]) -> list[Flow]:
        """Those of the lines that have not lost, in their order."""
        # Every line that ends asks, and most have begun no branches.
        if not lines:
            return []
        with self._mutex:
            return [line for line in lines if line not in self._paths]

    def are_in(self, path: str) -> bool:
        """Whether one may still journal something in the scope ``path``."""
        # Most attempts have none, and every turn that is over asks.
        if not self._paths:
            return False
        with self._mutex:
            return any(loser.startswith(f"{path}/") for loser in self._paths.values())

    def left_to(self, flow: Flow) -> list[Flow]:
        """Those that ``flow`` has to wait for: in its scope, and not in that of another one, which has its own."""
        if not self._paths:
            return []
        with self._mutex:
            paths = set(self._paths.values())
            within = [(line, path) for line, path in self._paths.items() if path.startswith(flow.scope)]
        return [line for line, path in within if not _has_around(path, paths, len(flow.scope))]


def _has_around(path: str, paths: set[str], least: int) -> bool:
    """Whether one of ``paths`` with at least so many characters is that of a scope around ``path``."""
    return any(len(scope) >= least and scope in paths for scope in above(path))

"""The paths that one line of execution has given to its calls: none of them twice."""

from __future__ import annotations

from ...exceptions import StepNameReused
from ..names import keyed_path, make_path


class Claimed:
    """Of the calls in one scope, which is empty or ends with a slash."""

    __slots__ = ("_counts", "_indexed", "_keyed", "_paths", "last", "said")

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._keyed: set[str] = set()
        """Paths of names that were used with a key."""
        self._indexed: set[str] = set()
        """Paths below which items or turns are numbered."""
        self._counts: dict[str, int] = {}
        self.last = ""
        """The path of the latest call; empty before the first."""
        self.said = 0
        """How many lines were logged since that call."""

    def claim(self, scope: str, name: str, key: object = None) -> str:
        """The path of this call, which no other has. Raises StepNameReused, InvalidName."""
        path = named = make_path(scope, name)
        if key is not None:
            path = keyed_path(named, key)
            if named in self._indexed:
                raise StepNameReused(path)
            self._keyed.add(named)
        if path in self._paths:
            raise StepNameReused(path)
        self._paths.add(path)
        self.last, self.said = path, 0
        return path

    def claim_indexes(self, path: str) -> None:
        """``path[…]`` belongs to what is at ``path``: its items, its turns. Raises StepNameReused where a call with a
        key has one of these paths, or is to get it."""
        if path in self._keyed:
            raise StepNameReused(path)
        self._indexed.add(path)

    def count(self, name: str) -> int:
        """How many unnamed values of this sort were asked for, this one included."""
        self._counts[name] = turn = self._counts.get(name, 0) + 1
        return turn

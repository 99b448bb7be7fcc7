"""Steps that were undone before their run was resumed: they are to be done again where the code comes by them."""

from __future__ import annotations

from ..journal.journal import Journal
from ..journal.losers import is_lost
from ..journal.states import EntryStatus, Kind
from .undoing import UNDO


class Redoing:
    """One for all lines of an attempt."""

    __slots__ = ("_journal", "_paths")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._paths: list[str] | None = None

    def is_due_in(self, scope: str) -> bool:
        """Whether a step in ``scope`` is to be done again, and was not yet. Nobody comes to those of a branch that has
        lost its race meanwhile."""
        due = (path for path in self._all() if path.startswith(scope) and not self._is_done(path))
        return any(not is_lost(path, self._journal.find) for path in due)

    def _all(self) -> list[str]:
        # Once for each attempt: as a rule there are none, and every scope that is over asks.
        if self._paths is None:
            undos = [entry for entry in self._journal.under("") if entry.kind == Kind.UNDO]
            self._paths = [entry.path.removesuffix(UNDO) for entry in undos if entry.status == EntryStatus.OPEN]
        return self._paths

    def _is_done(self, path: str) -> bool:
        entry = self._journal.find(path)
        return entry is not None and entry.status == EntryStatus.SUCCEEDED

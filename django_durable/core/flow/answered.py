"""Which events a run has answered: one memory for all its lines, since several of them may hold the same event."""

from __future__ import annotations

import threading
from functools import cached_property

from ..journal.journal import Journal
from ..journal.states import Kind


class Answered:
    """One for all lines of an attempt. Responses, encoded, by the places at which their events were taken."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.mutex = threading.Lock()
        """Held by whoever answers: branches that run in threads may hold the same event."""

    @cached_property
    def _given(self) -> dict[str, tuple[str, str]]:
        # Looked for once, and not in runs that answer nothing: a journal may be long.
        found = reversed(self._journal.under(""))
        return {e.awaits: (e.path, e.value or "") for e in found if e.kind == Kind.VALUE and e.awaits}

    def elsewhere(self, place: str, path: str) -> str | None:
        """The response that the event of ``place`` was given by another call than the one at ``path``."""
        at, response = self._given.get(place, (path, ""))
        return None if at == path else response

    def response(self, place: str) -> str | None:
        """The response that the event of ``place`` was given, if it was."""
        return self._given[place][1] if place in self._given else None

    def take(self, place: str, path: str, response: str) -> None:
        """The event of ``place`` is answered by the call at ``path``."""
        self._given[place] = path, response

"""A claim's journal that tells the attempt's commits what it is asked for: they decide how the attempt fares."""

from __future__ import annotations

from typing import Protocol

from ..core.journal.journal import Entry, MemoryJournal


class Listener(Protocol):
    def asked(self, path: str) -> None:
        """The workflow asks for what is journaled at ``path``."""

    def recorded(self, entry: Entry) -> None:
        """``entry`` is to be written with the next commit."""


class HeardJournal(MemoryJournal):
    """Takes the place of ``journal``."""

    def __init__(self, journal: MemoryJournal, listener: Listener) -> None:
        vars(self).update(vars(journal))
        self._listener = listener

    def ask(self, path: str) -> Entry | None:
        self._listener.asked(path)
        return super().ask(path)

    def add(self, entry: Entry) -> None:
        super().add(entry)
        self._listener.recorded(entry)

"""The database queue: no list at all. Workers ask the database; within a process a push wakes the claimer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID

from .ready import Ready


class DatabaseQueue:
    """Nothing to lose and nothing to set up; latency is the poll interval between processes."""

    gives_hints = False

    def __init__(self) -> None:
        self._pushed = threading.Event()

    def push(self, runs: Sequence[Ready]) -> None:
        if runs:
            self._pushed.set()

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        """Always empty: returns at a push from this process, or after ``timeout``."""
        if self._pushed.wait(timeout):
            self._pushed.clear()
        return []

    def length(self, queue: str) -> int:
        return 0

    def close(self) -> None:
        self._pushed.set()

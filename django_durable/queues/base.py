"""What a queue is: a channel for hints. Losing one costs time, never a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from .ready import Ready


class Queue(Protocol):
    """Both implementations pass the contract in ``tests/queues``."""

    @property
    def gives_hints(self) -> bool:
        """Whether ``pop`` tells of new runs. False: the claimer must ask the database at every poll."""

    def push(self, runs: Sequence[Ready]) -> None:
        """Tell workers of ready runs, of those first that are under way. Never raises and never blocks for long: the
        sweep finds what got lost."""

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        """Up to ``limit`` ids of these queues, best band first; waits up to ``timeout`` seconds for the first."""

    def length(self, queue: str) -> int:
        """How many ids wait in ``queue``; 0 where there is no list."""

    def close(self) -> None:
        """Give up connections; a waiting ``pop`` returns."""

"""Runs that are suspected of killing their process wait for one of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...conf import durable_settings
from ...store.database import Database
from ...store.workers import has_suspects
from ...workflows.registry import workflows


class Isolate:
    """Tells the supervisor that a suspect waits; it starts a process that works on nothing else.

    Whoever takes a lease away tells of it at once: this is for suspects that were left over.
    """

    def __init__(self, db: Database, queues: Sequence[str], tell: Callable[[], None]) -> None:
        self._db = db
        self._queues = queues
        self._tell = tell

    @property
    def interval(self) -> float:
        return durable_settings().LEASE_SECONDS

    def tick(self) -> int:
        if has_suspects(self._db, self._queues, tuple(workflows())):
            self._tell()
        return 0

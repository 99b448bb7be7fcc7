"""Runs that are suspected of killing their process wait for one of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...conf import durable_settings
from ...store.database import Database
from ...store.holding import NOTHING, Held
from ...store.workers import count_suspects
from ...workflows.registry import workflows

MOST = 100
"""More are not counted: no supervisor starts so many processes."""


class Isolate:
    """Tells the supervisor how many suspects wait; it starts processes that work on nothing else.

    Whoever takes a lease away tells of it at once: this is for suspects that were left over.
    """

    def __init__(
        self,
        db: Database,
        queues: Sequence[str],
        tell: Callable[[int], None],
        held: Callable[[], Held] = lambda: NOTHING,
    ) -> None:
        self._db = db
        self._queues = queues
        self._tell = tell
        self._held = held
        self._some_waited = False

    @property
    def interval(self) -> float:
        # Where some have just been waiting, there are processes to be started again that die or have their hands full.
        return durable_settings().REAP_SECONDS if self._some_waited else durable_settings().LEASE_SECONDS

    def tick(self) -> int:
        # For what is held the process that is started would find nothing to do, and be started for ever.
        held = self._held()
        queues = [name for name in self._queues if name not in held.queues]
        known = [name for name in workflows() if name not in held.workflows]
        count = count_suspects(self._db, queues, known, MOST)
        self._some_waited = count > 0
        if count:
            self._tell(count)
        return 0

"""Old rows deleted, a bounded step at a time."""

from __future__ import annotations

import logging

from ...store.database import Database
from ...store.pruning import Place, prune, retention
from ...workflows.registry import workflows

logger = logging.getLogger("django_durable.worker")

BATCH = 500
BETWEEN_STEPS = 1.0
BETWEEN_FULL_STEPS = 0.1
"""After a step that found as much to delete as it may: 5,000 runs a second can go, where so many come."""
BETWEEN_WALKS = 3600.0


class Prune:
    """Walks along the ids of all runs, then rests for an hour. Any number of processes may walk at once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._after: Place | None = None
        self._was_full = False

    @property
    def interval(self) -> float:
        if self._after is None:
            return BETWEEN_WALKS
        return BETWEEN_FULL_STEPS if self._was_full else BETWEEN_STEPS

    def tick(self) -> int:
        keep = retention({name: workflow.options.retention for name, workflow in workflows().items()})
        done = prune(self._db, BATCH, keep, after=self._after)
        self._after, self._was_full = done.after, done.runs >= BATCH
        if done.runs:
            logger.info("pruned runs=%d", done.runs)
        return done.runs

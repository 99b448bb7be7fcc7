"""The queue and waiting runs hear of what happened after the transaction that made it happen."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from ..core.registry import limits
from ..exceptions import RunLocked
from ..queues.base import Queue
from ..queues.current import current_queue
from ..queues.ready import Ready
from ..store import recovery
from ..store.database import Database
from ..store.limiting import hint

logger = logging.getLogger("django_durable.client")


def push_after_commit(db: Database, ready: Sequence[Ready]) -> None:
    """Tell the queue once the caller's transaction has committed; at once outside of one."""
    if ready:
        # After the commit: a worker that is faster than our COMMIT would find no row and drop the id.
        tell = partial(_hint, db.alias, current_queue(), list(ready))
        transaction.on_commit(tell, using=db.alias, robust=True)


def _hint(alias: str, queue: Queue, ready: Sequence[Ready]) -> None:
    hint(Database(alias), queue, ready, limits())


def wake_after_commit(db: Database, run_id: UUID) -> None:
    """Wake the run in a transaction of its own, once what it may wait for is committed.

    Inside the sender's transaction it could find the run not yet waiting and the run could not yet see the event.
    """
    transaction.on_commit(partial(_wake, db.alias, run_id), using=db.alias, robust=True)


def _wake(alias: str, run_id: UUID) -> None:
    try:
        current_queue().push(recovery.wake(Database(alias), run_id))
    except RunLocked as error:
        # What happened is committed, and nothing of it was refused: its sender is not to fail, nor to wait for ever.
        logger.warning("the sweep is left to wake run %s: %s", run_id, error)

"""The queue and waiting runs hear of what happened after the transaction that made it happen."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from uuid import UUID

from ..core.registry import limits
from ..exceptions import RunLocked
from ..models import Run
from ..queues.base import Queue
from ..queues.current import current_queue
from ..queues.ready import Ready
from ..store import recovery
from ..store.database import Database
from ..store.limiting import hint
from .after_commit import after_commit

logger = logging.getLogger("django_durable.client")


def push_after_commit(db: Database, ready: Sequence[Ready]) -> None:
    """Tell the queue once the caller's transaction has committed; at once outside of one."""
    if ready:
        # After the commit: a worker that is faster than our COMMIT would find no row and drop the id.
        after_commit(db, partial(_hint, db.alias, current_queue(), list(ready)))


def _hint(alias: str, queue: Queue, ready: Sequence[Ready]) -> None:
    if any(run.limit_key is not None for run in ready):
        hint(Database(alias), queue, ready, limits())
    else:
        queue.push(ready)


def wake_after_commit(db: Database, run_id: UUID) -> None:
    """Wake the run in a transaction of its own, once what it may wait for is committed.

    Inside the sender's transaction it could find the run not yet waiting and the run could not yet see the event.
    """
    after_commit(db, partial(_wake, db.alias, run_id))


def wake_parents_after_commit(db: Database, ended: Iterable[Run]) -> None:
    """As ``wake_after_commit``, for the parents of runs that are over: one wake, however many children of a map."""
    for parent_id, path in recovery.one_for_each_wait((run.parent_id, run.parent_path) for run in ended):
        after_commit(db, partial(_wake_parent, db.alias, parent_id, path))


def _wake(alias: str, run_id: UUID) -> None:
    with _left_to_the_sweep(run_id):
        current_queue().push(recovery.wake(Database(alias), run_id))


def _wake_parent(alias: str, parent_id: UUID, path: str) -> None:
    with _left_to_the_sweep(parent_id):
        current_queue().push(recovery.wake_parent(Database(alias), parent_id, path))


@contextmanager
def _left_to_the_sweep(run_id: UUID) -> Iterator[None]:
    try:
        yield
    except RunLocked as error:
        # What happened is committed, and nothing of it was refused: its sender is not to fail, nor to wait for ever.
        logger.warning("the sweep is left to wake run %s: %s", run_id, error)

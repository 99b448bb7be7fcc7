"""Rows of schedules under their locks, for operators: a loop leaves one that is held for its next tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db.models import QuerySet
from django.db.utils import OperationalError

from ..exceptions import ScheduleLocked
from ..models import Schedule
from . import locking
from .database import Database


@contextmanager
def brief_schedule_lock(db: Database, asked: QuerySet[Schedule]) -> Iterator[list[Schedule]]:
    """A transaction, or a savepoint, with these rows locked in primary key order; no row is waited for longer than
    LOCK_SECONDS. Raises ScheduleLocked."""
    seconds = locking.LOCK_SECONDS
    rows = asked.using(db.alias)
    try:
        with db.brief_transaction(seconds):
            yield list(rows.select_for_update(no_key=True).order_by("pk"))
    except OperationalError as error:
        if not db.dialect.is_lock_timeout(error):
            raise
        raise ScheduleLocked(_named(db, rows), seconds) from error


def _named(db: Database, asked: QuerySet[Schedule]) -> Sequence[str]:
    held = locking.held_by_others(db, asked)
    # All of them where whoever held one has just let go of it.
    return [str(row) for row in (asked.filter(pk__in=held) if held else asked).order_by("pk")]

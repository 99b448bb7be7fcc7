"""Rows of runs under their locks: taken in one order, waited for only so long, changed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.db.utils import OperationalError

from ..exceptions import RunLocked
from ..models import Run
from .database import Database

LOCK_SECONDS = 2.0
"""How long who acts on a run waits for a transaction that holds its row; a worker's own are done in milliseconds."""
TICK_SECONDS = 0.1
"""How long a loop waits for one: until it goes on everything else that it does waits with it. It comes back."""


@contextmanager
def brief_lock(db: Database, run_ids: Sequence[UUID], seconds: float | None = None) -> Iterator[None]:
    """A transaction, or a savepoint, that waits for no row longer than ``seconds`` (LOCK_SECONDS). Raises RunLocked,
    which names those of the runs (or of what ``locked`` asked for in it) that another transaction holds."""
    seconds = LOCK_SECONDS if seconds is None else seconds
    try:
        with db.brief_transaction(seconds):
            yield
    except _Refused as refused:
        held = held_by_others(db, refused.runs)
        # All of them where whoever held one has just let go of it.
        raise RunLocked(held or run_ids or _keys_of(db, refused.runs), seconds) from refused.__cause__
    except OperationalError as error:
        if not db.dialect.is_lock_timeout(error):
            raise
        raise RunLocked(run_ids, seconds) from error


def locked(db: Database, runs: QuerySet[Run]) -> list[Run]:
    """The rows under their locks, in primary key order (the order of every lock of this package)."""
    try:
        return list(runs.using(db.alias).select_for_update(no_key=True).order_by("pk"))
    except OperationalError as error:
        if not db.dialect.is_lock_timeout(error):
            raise
        raise _Refused(runs) from error


def lock_parents(db: Database, run_ids: Sequence[UUID]) -> None:
    """Before the children, as a cancellation does: no parent journals its child's end while we decide by it."""
    children = Run.objects.using(db.alias).filter(pk__in=list(run_ids), parent_id__isnull=False)
    parents = list(children.values_list("parent_id", flat=True))
    if parents:
        locked(db, Run.objects.filter(pk__in=parents))


def locked_now(db: Database, runs: QuerySet[Run], limit: int | None = None) -> list[Run]:
    """As ``locked``, without the rows that somebody holds, and up to ``limit``: who asks comes back to the others."""
    skips = db.connection.features.has_select_for_update_skip_locked
    return list(runs.using(db.alias).select_for_update(no_key=True, skip_locked=skips).order_by("pk")[:limit])


def change(db: Database, runs: Sequence[Run], **columns: Any) -> None:
    """Set these columns of rows that are locked."""
    if runs:
        Run.objects.using(db.alias).filter(pk__in=[run.pk for run in runs]).update(**columns)


class _Refused(Exception):
    """``runs`` were waited for in vain. Only outside of the failed transaction can we look which of them it was."""

    def __init__(self, runs: QuerySet[Run]) -> None:
        super().__init__()
        self.runs = runs


def held_by_others(db: Database, rows: QuerySet[Any]) -> list[Any]:
    """The keys of those of these rows that another transaction holds at this moment."""
    asked = _keys_of(db, rows)
    skips = db.connection.features.has_select_for_update_skip_locked
    with db.transaction():
        free = {row.pk for row in rows.using(db.alias).select_for_update(no_key=True, skip_locked=skips)}
        # To let go of them at once, also inside a transaction of the caller's.
        transaction.set_rollback(True, using=db.alias)
    return [pk for pk in asked if pk not in free]


def _keys_of(db: Database, rows: QuerySet[Any]) -> list[Any]:
    return list(rows.using(db.alias).order_by("pk").values_list("pk", flat=True))


def is_waited_for(db: Database) -> bool:
    """Whether somebody waits for a lock that this transaction holds."""
    ask = db.dialect.is_waited_for
    return bool(ask) and bool(db.rows(ask)[0][0])

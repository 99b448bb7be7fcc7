"""Statements that can write nothing and take no longer than they may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.utils import OperationalError

from ...core import clock
from ..database import Database
from ..reading import undone

TIMEOUT = 10.0
"""Seconds that a statement may take."""
QUERY_CANCELED = "57014"
"""PostgreSQL's word for a statement whose time was over, or that somebody cancelled."""
STEPS = 10_000
"""Steps of SQLite's machine from one look at the clock to the next: a fraction of a millisecond."""


class NotInTime(Exception):
    """A statement was stopped before it had told what it found."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"a statement was stopped after {seconds:g} s")


@contextmanager
def brief_look(db: Database, seconds: float) -> Iterator[None]:
    """What is read here is read at one moment; a write is refused, and so is a statement that takes longer. Raises
    NotInTime."""
    look = _on_sqlite(db, seconds) if db.dialect.has_one_writer else _in_transaction(db, seconds)
    try:
        with look:
            yield
    except OperationalError as error:
        if _was_stopped(error):
            raise NotInTime(seconds) from error
        raise


@contextmanager
def _in_transaction(db: Database, seconds: float) -> Iterator[None]:
    """A transaction for each window, and none for all: the oldest one is what a vacuum has to leave alone. It is undone
    because in the caller's transaction a part of it would leave its time-out behind."""
    is_nested = db.connection.in_atomic_block
    with undone(db):
        db.rows(db.dialect.forbid_writes(is_nested))
        # SET LOCAL, which PgBouncer's transaction mode allows.
        db.rows(f"SET LOCAL statement_timeout = {max(round(seconds * 1000), 1)}")
        yield


@contextmanager
def _on_sqlite(db: Database, seconds: float) -> Iterator[None]:
    """No transaction, which would begin by taking the one write lock: each statement sees a moment of its own."""
    db.connection.ensure_connection()
    ends = clock.monotonic() + seconds
    raw = db.connection.connection
    db.rows(db.dialect.forbid_writes(False))
    raw.set_progress_handler(lambda: clock.monotonic() > ends, STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)
        db.rows(db.dialect.allow_writes())


def _was_stopped(error: OperationalError) -> bool:
    return getattr(error.__cause__, "sqlstate", None) == QUERY_CANCELED or str(error) == "interrupted"

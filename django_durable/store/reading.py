"""Looking without being able to write, whatever code runs meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from django.core.exceptions import ImproperlyConfigured
from django.db import Error, transaction

from .database import Database


@contextmanager
def read_only(db: Database) -> Iterator[None]:
    """A transaction in which the database refuses every write. In the caller's transaction a part of that."""
    is_nested = db.connection.in_atomic_block
    with db.transaction():
        db.rows(db.dialect.forbid_writes(is_nested))
        try:
            yield
        finally:
            if statement := db.dialect.allow_writes():
                db.rows(statement)


@contextmanager
def undone(db: Database) -> Iterator[None]:
    """A part of a transaction that leaves nothing behind: no error of a statement in it, and no write."""
    with db.transaction():
        try:
            yield
        finally:
            transaction.set_rollback(True, using=db.alias)


@contextmanager
def without_effect(db: Database) -> Iterator[None]:
    """As both, for who needs nothing of the database: where there is none every statement is refused."""
    try:
        db.connection.ensure_connection()
    except (Error, ImproperlyConfigured):
        with db.connection.execute_wrapper(_refuse):
            yield
        return
    with read_only(db), undone(db):
        yield


def _refuse(*_: Any) -> NoReturn:
    raise Error("there was no database when this began, and now nothing may be sent to it")

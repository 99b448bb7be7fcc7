"""What keeps a test's transaction usable around the user's code."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

IN_ERROR = 3
"""The transaction status of libpq, the same number in psycopg 2 and 3."""


@dataclass(slots=True, frozen=True)
class _Savepoint:
    connection: BaseDatabaseWrapper
    name: str
    depth: int


class Savepoints:
    """A savepoint on each connection that a TestCase holds in a transaction, while the user's code runs.

    With a worker a step's statement that fails harms nobody else, since steps run in autocommit. In a TestCase it
    would break the one transaction that the journal is written in too.
    """

    def __init__(self) -> None:
        self._taken: list[_Savepoint] = []

    def open(self) -> None:
        if self._taken:
            return
        for connection in connections.all(initialized_only=True):
            if connection.in_atomic_block and not _is_broken(connection) and (name := connection.savepoint()):
                self._taken.append(_Savepoint(connection, name, len(connection.atomic_blocks)))

    def close(self) -> None:
        # Within a transaction of the user's code (an atomic step) the savepoint is not ours to release yet.
        if any(len(taken.connection.atomic_blocks) > taken.depth for taken in self._taken):
            return
        while self._taken:
            _release(self._taken.pop())


def _release(taken: _Savepoint) -> None:
    connection = taken.connection
    if not _is_broken(connection):
        connection.savepoint_commit(taken.name)
        return
    # Django refuses every statement, also this one, while it believes the transaction broken.
    connection.needs_rollback = False
    connection.savepoint_rollback(taken.name)


def _is_broken(connection: BaseDatabaseWrapper) -> bool:
    if connection.needs_rollback:
        return True
    return connection.vendor == "postgresql" and connection.connection.info.transaction_status == IN_ERROR

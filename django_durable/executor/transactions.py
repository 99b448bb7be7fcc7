"""Transactions of the user's: none may be open around a ``ctx`` call, and none may be left open by a step."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from ..exceptions import ContextMisuse

_before: ContextVar[dict[str, int]] = ContextVar("django_durable_transactions_before", default={})  # noqa: B039


def open_transactions() -> dict[str, int]:
    """How many atomic blocks are open on each connection of this thread (a TestCase has some already)."""
    return {
        connection.alias: depth
        for connection in connections.all(initialized_only=True)
        if (depth := _depth(connection))
    }


@contextmanager
def within_open_transactions() -> Iterator[None]:
    """Attempts of ``async def`` workflows that begin in here take those that are open on this thread for the test's."""
    token = _before.set(open_transactions())
    try:
        yield
    finally:
        _before.reset(token)


def transactions_before() -> dict[str, int]:
    """What was open before an ``async def`` workflow began: in a worker nothing, since its thread is begun for it."""
    return _before.get()


class _Here(threading.local):
    connections: list[BaseDatabaseWrapper] | None = None
    """None in a thread that has executed nothing: a web server's, whose connections are none of our business."""


_here = _Here()


def connections_here() -> list[BaseDatabaseWrapper]:
    """Those of this thread, and from now on those that it opens. To ask Django for them takes longer than the rest of a
    step's beginning and end.

    Until it is called again it misses one that was open elsewhere and is put into Django's place for an alias.
    """
    if (here := _here.connections) is None:
        here = _here.connections = []
    here[:] = connections.all(initialized_only=True)
    return here


def _opened(connection: BaseDatabaseWrapper, **_: Any) -> None:
    here = _here.connections
    if here is None:
        return
    if not _has(here, connection) and _has(connections.all(initialized_only=True), connection):
        here.append(connection)


def _has(those: Iterable[BaseDatabaseWrapper], connection: BaseDatabaseWrapper) -> bool:
    # Wrappers of one alias are equal, and the engine has some of its own.
    return any(one is connection for one in those)


connection_created.connect(_opened, dispatch_uid="django_durable.executor.transactions")


def _depth(connection: object) -> int:
    return len(getattr(connection, "atomic_blocks", ())) or (1 if getattr(connection, "in_atomic_block", False) else 0)


def refuse_open_transaction(outer: dict[str, int], among: Iterable[BaseDatabaseWrapper] | None = None) -> None:
    """Raise ContextMisuse where a transaction is open that was not there when the run began; ``among``: on one of these
    (None: of this thread's connections).

    A step's journal row is committed on another connection: were the user's transaction rolled back, the
    journal would say that it happened.
    """
    for connection in connections.all(initialized_only=True) if among is None else among:
        if connection.in_atomic_block and _depth(connection) > outer.get(connection.alias, 0):
            raise ContextMisuse(
                "ctx was used inside transaction.atomic(): what the journal says could be rolled back. "
                "Open the transaction inside a step, or use atomic=True."
            )


def leftover_transactions(
    outer: dict[str, int], among: Iterable[BaseDatabaseWrapper] | None = None
) -> ContextMisuse | None:
    """Undo what a step left open on this thread's connections, or ``among`` these; the error that says so, or None."""
    found = None
    for connection in connections.all(initialized_only=True) if among is None else among:
        if connection.connection is None:
            continue
        is_open = connection.in_atomic_block and _depth(connection) > outer.get(connection.alias, 0)
        is_manual = not connection.in_atomic_block and not connection.autocommit
        if is_open or is_manual:
            _roll_back(connection, outer.get(connection.alias, 0))
            found = ContextMisuse(
                f"The step left a transaction open on {connection.alias!r}; it was rolled back. "
                "Close what you open, best with `with transaction.atomic():`."
            )
    return found


def _roll_back(connection: BaseDatabaseWrapper, outer: int) -> None:
    if outer:
        # A TestCase's own transaction must live on: leave the blocks inside of it, as an error would.
        while _depth(connection) > outer:
            connection.atomic_blocks[-1].__exit__(ContextMisuse, None, None)
        return
    # Closing rolls back whatever it was, and Django forgets the blocks that nobody will leave.
    connection.atomic_blocks.clear()
    connection.in_atomic_block = False
    connection.closed_in_transaction = False
    connection.savepoint_ids = []
    connection.needs_rollback = False
    connection.close()


def drop_broken_connections() -> None:
    """What Django does between requests, after a step that failed: drop connections that are too old or broken."""
    for connection in connections.all(initialized_only=True):
        # A TestCase's transaction looks like one that somebody left open, and would be closed.
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()

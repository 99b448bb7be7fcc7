"""Transactions of the user's: none may be open around a ``ctx`` call, and none may be left open by a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

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


def _depth(connection: object) -> int:
    return len(getattr(connection, "atomic_blocks", ())) or (1 if getattr(connection, "in_atomic_block", False) else 0)


def refuse_open_transaction(outer: dict[str, int]) -> None:
    """Raise ContextMisuse where a transaction is open that was not there when the run began.

    A step's journal row is committed on another connection: were the user's transaction rolled back, the
    journal would say that it happened.
    """
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block and _depth(connection) > outer.get(connection.alias, 0):
            raise ContextMisuse(
                "ctx was used inside transaction.atomic(): what the journal says could be rolled back. "
                "Open the transaction inside a step, or use atomic=True."
            )


def leftover_transactions(outer: dict[str, int]) -> ContextMisuse | None:
    """Undo what a step left open on this thread's connections; the error that says so, or None."""
    found = None
    for connection in connections.all(initialized_only=True):
        if connection.connection is None:
            continue
        is_open = connection.in_atomic_block and _depth(connection) > outer.get(connection.alias, 0)
        is_manual = not connection.in_atomic_block and not connection.get_autocommit()
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

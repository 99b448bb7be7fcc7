"""Transactions of the user's: none may be open around a ``ctx`` call, and none may be left open by a step."""

from __future__ import annotations

from django.db import connections

from ..exceptions import ContextMisuse


def open_transactions() -> dict[str, int]:
    """How many atomic blocks are open on each connection of this thread (a TestCase has some already)."""
    return {
        connection.alias: depth for connection in connections.all(initialized_only=True) if (depth := _depth(connection))
    }


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
            # Closing rolls back whatever it was, and Django forgets the blocks that nobody will leave.
            connection.atomic_blocks.clear() if hasattr(connection, "atomic_blocks") else None
            connection.in_atomic_block = False
            connection.savepoint_ids = []
            connection.needs_rollback = False
            connection.close()
            found = ContextMisuse(
                f"The step left a transaction open on {connection.alias!r}; it was rolled back. "
                "Close what you open, best with `with transaction.atomic():`."
            )
    return found

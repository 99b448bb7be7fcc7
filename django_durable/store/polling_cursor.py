"""The cursor of a connection of the engine's own that may stay awake for its answers."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from .busy_polling import BusyPolling
from .typed_statements import TypedStatements

USUAL: Any = base.ServerBindingCursor


class PollingCursor(USUAL):  # type: ignore[misc]
    polling: BusyPolling | None = None

    def _execute_gen(self, *given: Any, **more: Any) -> Any:
        # Where a psycopg has no such method nobody calls this, and what waits sleeps.
        exchange = super()._execute_gen(*given, **more)
        if self.polling is None or not self.polling.is_wanted:
            return exchange
        return self.polling.awake(exchange, self.connection.pgconn.socket)


def polling_cursor(connection: Any, polling: BusyPolling) -> Any:
    """What ``connection.cursor()`` gives, which ``polling`` keeps awake where it is of Django's usual kind."""
    connection.ensure_connection()
    driver = connection.connection
    if driver.cursor_factory is USUAL:
        driver.cursor_factory = PollingCursor
    cursor = connection.cursor()
    if type(cursor.cursor) is PollingCursor:
        cursor.cursor.polling = polling
    return cursor


def typed_statements(cursor: Any, polling: BusyPolling) -> TypedStatements | None:
    """Of the connection of a ``polling_cursor``; None where somebody has chosen another kind of cursor, and may want to
    hear of each statement."""
    if type(cursor.cursor) is not PollingCursor:
        return None
    return TypedStatements(cursor.cursor.connection, polling)

"""The cursor of a connection of the engine's own that may stay awake for its answers."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from .busy_polling import BusyPolling

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

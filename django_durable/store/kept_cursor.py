"""One cursor for the statements of a connection that is the engine's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from .busy_polling import BusyPolling
from .dialects import Dialect
from .statements import Typed

MUCH = 10_000
"""Characters of a value."""


class KeptCursor:
    """Executes one statement after the other; used by one thread at a time.

    To make a cursor for each statement, and to learn anew how each type is written and read, took a tenth of the CPU of
    a lone step.
    """

    def __init__(self, wrapper: BaseDatabaseWrapper, dialect: Dialect, polling: BusyPolling) -> None:
        self._wrapper = wrapper
        self._dialect = dialect
        self._polling = polling
        self._cursor: Any = None
        self._driver: Any = None
        self._typed: Any = None
        """What sends ``Typed`` statements on that connection; None where all are left to cursors."""

    @property
    def may_be_used(self) -> bool:
        """Whether nothing happens with each new cursor but what Django does; and no log of queries is kept, which hears
        of each by a cursor of its own kind."""
        return self._dialect.makes_usual_cursors(self._wrapper) and not self._wrapper.queries_logged

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """As ``Database.rows``."""
        cursor = self._current()
        try:
            if type(sql) is Typed and (rows := self._typed_rows(sql, parameters)) is not None:
                return rows
            self.hear_out()
            cursor.execute(sql, parameters)
            rows = cursor.fetchall() if self._dialect.has_rows(cursor) else []
        except BaseException as error:
            self.drop()
            if not isinstance(error, Exception):
                # Interrupted: an answer may be under way, and the next statement must not be taken for its question.
                self._wrapper.close()
            raise
        if len(rows) > 1 or _is_much(parameters.values()) or (rows and _is_much(rows[0])):
            # It holds on to what it was given and has found, until the next statement.
            self.drop()
        return rows

    def _typed_rows(self, sql: Typed, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """The same without the cursor; None where that has to be it: somebody wants to hear what it executes."""
        if self._typed is None or self._wrapper.execute_wrappers:
            return None
        with self._wrapper.wrap_database_errors, self._driver.lock:
            found: list[tuple[Any, ...]] | None = self._typed.rows(self._driver, sql, parameters)
        return found

    def rows_at_once(self, sql: Typed, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """As ``rows``, for who must not sleep, nor use a cursor. None where there is no answer yet, or a bad one: as
        ``TypedStatements.rows_at_once``."""
        if not self.is_connected or self._typed is None or self._wrapper.execute_wrappers or not self.may_be_used:
            return None
        if _is_much(parameters.values()):
            # To write that takes long, and to send it more than one go.
            return None
        try:
            with self._wrapper.wrap_database_errors, self._driver.lock:
                found: list[tuple[Any, ...]] | None = self._typed.rows_at_once(self._driver, sql, parameters)
        except Exception:
            # The same comes of it where somebody may wait, who knows what to make of it.
            return None
        except BaseException:
            # As in ``rows``; on an event loop Django's own connection refuses to be closed.
            self._driver.close()
            raise
        return found

    @property
    def is_connected(self) -> bool:
        """Whether the next statement goes over the connection of the last one, without a look at its health."""
        wrapper: Any = self._wrapper
        is_to_be_looked_at = wrapper.health_check_enabled and not wrapper.health_check_done
        return self._driver is not None and self._driver is wrapper.connection and not is_to_be_looked_at

    def hear_out(self) -> None:
        """Before anything else is said on the connection: an answer may be out that ``rows_at_once`` did not wait
        for."""
        if (typed := self._typed_of_now) is not None:
            typed.hear_out(self._driver)

    def rolled_back(self) -> None:
        """A transaction of this connection was rolled back."""
        if (typed := self._typed_of_now) is not None:
            typed.forget(self._driver)

    @property
    def _typed_of_now(self) -> Any:
        """None where there is another connection by now, which has said nothing yet."""
        return self._typed if self._driver is self._wrapper.connection else None

    def drop(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with suppress(Exception):
                cursor.close()

    def _current(self) -> Any:
        # As ``wrapper.cursor()`` does it.
        wrapper = self._wrapper
        wrapper.close_if_health_check_failed()
        if self._cursor is None or wrapper.connection is None or self._driver is not wrapper.connection:
            self._cursor = wrapper.cursor()
            if self._driver is not wrapper.connection:
                self._driver = wrapper.connection
                self._typed = self._dialect.typed_statements(self._cursor, self._polling)
        return self._cursor


def _is_much(values: Iterable[Any]) -> bool:
    for value in values:  # noqa: SIM110  (of every statement: a third of the cost of any() of a generator)
        if isinstance(value, str) and len(value) > MUCH:
            return True
    return False

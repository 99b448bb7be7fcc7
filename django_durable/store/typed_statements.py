"""Statements that say of each parameter of which type it is, sent without what a cursor does for any statement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import count
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Error, capabilities, generators
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus

from .busy_polling import BusyPolling

USUAL: Any = base.ServerBindingCursor
Row = tuple[Any, ...]
MOST = 100
"""Statements that a connection has prepared at a time, besides as many of psycopg's."""
CHANGED = frozenset({"0A000", "26000"})
"""PostgreSQL's words for a prepared statement that does not fit its tables any more, and for one that is not there."""
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


class TypedStatements:
    """Of one connection, while it lasts; used by one thread at a time.

    To learn types from values, to write these each in its way and to make a cursor of the answer took psycopg and
    Django 33 µs of CPU for the commit of a lone step, whose exchange took 76 without the wait for the disk and takes
    44.
    """

    def __init__(self, driver: Any, polling: BusyPolling) -> None:
        self.driver = driver
        self._polling = polling
        self._transformer = Transformer(driver)
        self._prepares = driver.prepare_threshold is not None
        self._seen: set[str] = set()
        """Those that came once, which is no reason to prepare them."""
        self._names: dict[str, bytes] = {}
        """What is prepared; the longest unused first."""
        self._numbers = count(1)

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> list[Row] | None:
        """As a cursor of the driver's; None where it has to be one's: there is a value that is neither text nor number,
        or an unusual one."""
        text, order = _numbered(sql)
        if (values := _written([parameters[name] for name in order])) is None:
            return None
        if self._prepares and (name := self._name_of(sql, text)):
            self.driver.pgconn.send_query_prepared(name, values)
            try:
                return self._answer()
            except Error as error:
                if error.sqlstate not in CHANGED:
                    raise
                self._names.clear()
                if self._is_begun:
                    raise
            # Nothing has happened so far.
        self.driver.pgconn.send_query_params(text, values)
        return self._answer()

    def forget(self) -> None:
        """Outside of a transaction. After a ROLLBACK, as of which psycopg forgets what it has prepared, and makes the
        server forget all that there is."""
        if self._names:
            self._names.clear()
            self.driver.pgconn.send_query_params(b"DEALLOCATE ALL", [])
            self._answer()

    @property
    def _is_begun(self) -> bool:
        return bool(self.driver.pgconn.transaction_status != TransactionStatus.IDLE)

    def _name_of(self, sql: str, text: bytes) -> bytes | None:
        """Under which name it is prepared; None where it comes for the first time."""
        if name := self._names.pop(sql, None):
            self._names[sql] = name
            return name
        if sql not in self._seen:
            if len(self._seen) >= MOST:
                self._seen.clear()
            self._seen.add(sql)
            return None
        if len(self._names) >= MOST:
            if self._is_begun:
                # Where the server does not know it any more the transaction would be over.
                return None
            self._close(self._names.pop(next(iter(self._names))))
        name = self._names[sql] = self._prepare(text)
        return name

    def _prepare(self, text: bytes) -> bytes:
        name = b"durable_%d" % next(self._numbers)
        self.driver.pgconn.send_prepare(name, text)
        self._answer()
        return name

    def _close(self, name: bytes) -> None:
        if capabilities.has_send_close_prepared():
            self.driver.pgconn.send_close_prepared(name)
        else:
            self.driver.pgconn.send_query_params(b"DEALLOCATE " + name, [])
        try:
            self._answer()
        except Error as error:
            if error.sqlstate not in CHANGED:
                raise

    def _answer(self) -> list[Row]:
        """To what was just sent."""
        pgconn = self.driver.pgconn
        exchange: Any = generators.execute(pgconn)
        if self._polling.is_wanted:
            exchange = self._polling.awake(exchange, pgconn.socket)
        results = self.driver.wait(exchange)
        for result in results:
            # Also behind a result: where the commit fails that the server makes of itself.
            if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
                raise error_from_result(result)
        result = results[0]
        if result.status == ExecStatus.COMMAND_OK:
            return []
        transformer = self._transformer
        transformer.set_pgresult(result)
        rows = transformer.load_rows(0, result.ntuples, tuple)
        # It would hold on to it.
        transformer.set_pgresult(None)
        return rows


def typed_statements(cursor: Any, polling: BusyPolling) -> TypedStatements | None:
    """Of the connection of a cursor of Django's; None where somebody has chosen another kind of cursor, and may want to
    hear of each statement."""
    return TypedStatements(cursor.cursor.connection, polling) if type(cursor.cursor) is USUAL else None


@lru_cache(maxsize=2 * MOST)
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbers for its parameters, and their names in that order."""
    order: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return "%" if found[1] is None else f"${order.setdefault(found[1], len(order) + 1)}"

    return _PLACEHOLDER.sub(number, sql).encode(), tuple(order)


def _written(values: Iterable[Any]) -> list[bytes | None] | None:
    """Of texts and numbers what PostgreSQL reads; None where there is something else among them."""
    found: list[bytes | None] = []
    for value in values:
        kind = type(value)
        if value is None:
            found.append(None)
        elif isinstance(value, str) and "\0" not in value:
            found.append(value.encode())
        elif kind is int:
            found.append(b"%d" % value)
        elif kind is float:
            found.append(repr(value).encode())
        elif kind is bool:
            found.append(b"t" if value else b"f")
        else:
            return None
    return found

"""Statements that say of each parameter of which type it is, sent without what a cursor does for any statement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

from django.db.backends.postgresql import base
from psycopg import Error, capabilities, generators
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus

from .busy_polling import BusyPolling, Exchange, Unanswered

USUAL: Any = base.ServerBindingCursor
Row = tuple[Any, ...]
MOST = 100
"""Statements that a connection of ours has prepared at a time, besides as many of psycopg's."""
CHANGED, GONE = "0A000", "26000"
"""PostgreSQL's words for a prepared statement that does not fit its tables any more, and for one that is not there."""
_PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)")


class Question(NamedTuple):
    """A statement that was sent, whose answer nobody has read; ``rest`` brings it."""

    sql: str
    values: list[bytes | None]
    rest: Exchange[Any]


class TypedStatements:
    """Of one ``driver``, psycopg's connection, while it lasts; used by one thread at a time.

    To learn types from values, to write these each in its way and to make a cursor of the answer took psycopg and
    Django 33 µs of CPU for the commit of a lone step, whose exchange took 76 without the wait for the disk and takes
    44.
    """

    def __init__(
        self,
        *,
        prepares: bool,
        most: int = MOST,
        polling: BusyPolling | None = None,
        transformer: Any = None,
    ) -> None:
        """``prepares``: whether statements that come again are prepared, ``most`` of them at a time. ``polling``: what
        says when to stay awake. ``transformer``: the driver's, kept to read all answers with. It holds on to the
        driver: not for who is kept by that himself."""
        self._prepares = prepares
        self._most = most
        self._polling = polling
        self._transformer = transformer
        self._seen: set[str] = set()
        """Those that came once, which is no reason to prepare them."""
        self._names: dict[str, bytes] = {}
        """What is prepared; the longest unused first."""
        self._numbers = count(1)
        self._unheard: Question | None = None
        """Asked by who could not wait for it."""

    def rows(self, driver: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row] | None:
        """As a cursor of the driver's; None where it has to be one's: there is a value that is neither text nor number,
        or an unusual one."""
        text, order = _numbered(sql)
        values = _written([parameters[name] for name in order])
        if self._unheard is not None and (found := self.hear_out(driver, sql, values)) is not None:
            return found
        if values is None:
            return None
        if self._prepares and (name := self._name_of(driver, sql, text)):
            self._send(driver, sql, text, values, name)
            try:
                return self._answer(driver)
            except Error as error:
                if error.sqlstate == GONE:
                    # Whatever made it go took the others too.
                    self._names.clear()
                elif error.sqlstate == CHANGED:
                    del self._names[sql]
                else:
                    raise
                if _is_begun(driver):
                    raise
                # Nothing has happened so far.
                if error.sqlstate == CHANGED:
                    self._close(driver, name)
        self._send(driver, sql, text, values)
        return self._answer(driver)

    def rows_at_once(self, driver: Any, sql: str, parameters: Mapping[str, Any]) -> list[Row] | None:
        """As ``rows``, for who must not sleep. None where there is no answer yet: ``rows`` asks again, or goes on to
        wait for it where it was asked."""
        if not self.is_one_exchange(sql):
            return None
        text, order = _numbered(sql)
        values = _written([parameters[name] for name in order])
        if self._polling is None or values is None:
            return None
        self._send(driver, sql, text, values, self._name_of(driver, sql, text) if self._prepares else None)
        try:
            results = self._polling.answer_at_once(generators.execute(driver.pgconn), driver.pgconn.socket)
        except Unanswered as out:
            self._unheard = Question(sql, values, out.rest)
            return None
        return self._read(driver, results)

    def is_one_exchange(self, sql: str) -> bool:
        """Whether nothing has to be said before: the statement is prepared, if it is to be, and no answer is out."""
        return self._unheard is None and (not self._prepares or sql in self._names)

    def hear_out(self, driver: Any, sql: str = "", values: list[bytes | None] | None = None) -> list[Row] | None:
        """Wait for the answer that is out, if one is, so that the next one is not taken for it; None where it is to
        something else. That is lost then: as after a connection that broke, whoever has asked asks again."""
        if (unheard := self._unheard) is None:
            return None
        self._unheard = None
        try:
            rows = self._read(driver, driver.wait(unheard.rest))
        except Error:
            # It comes again with the question.
            return None
        return rows if (unheard.sql, unheard.values) == (sql, values) else None

    def forget(self, driver: Any) -> None:
        """Outside of a transaction. After a ROLLBACK, as of which psycopg forgets what it has prepared, and makes the
        server forget all that there is."""
        if self._names:
            self._names.clear()
            driver.pgconn.send_query_params(b"DEALLOCATE ALL", [])
            self._answer(driver)

    def _send(self, driver: Any, sql: str, text: bytes, values: list[bytes | None], name: bytes | None = None) -> None:
        """``sql`` is how others know it who listen here."""
        if name:
            driver.pgconn.send_query_prepared(name, values)
        else:
            driver.pgconn.send_query_params(text, values)

    def _name_of(self, driver: Any, sql: str, text: bytes) -> bytes | None:
        """Under which name it is prepared; None where it comes for the first time."""
        if name := self._names.pop(sql, None):
            self._names[sql] = name
            return name
        if sql not in self._seen:
            if len(self._seen) >= self._most:
                self._seen.clear()
            self._seen.add(sql)
            return None
        if len(self._names) >= self._most:
            if _is_begun(driver):
                # Where the server does not know it any more the transaction would be over.
                return None
            self._close(driver, self._names.pop(next(iter(self._names))))
        name = self._names[sql] = self._prepare(driver, text)
        return name

    def _prepare(self, driver: Any, text: bytes) -> bytes:
        name = b"durable_%d" % next(self._numbers)
        driver.pgconn.send_prepare(name, text)
        self._answer(driver)
        return name

    def _close(self, driver: Any, name: bytes) -> None:
        if capabilities.has_send_close_prepared():
            driver.pgconn.send_close_prepared(name)
        else:
            driver.pgconn.send_query_params(b"DEALLOCATE " + name, [])
        try:
            self._answer(driver)
        except Error as error:
            if error.sqlstate != GONE:
                raise

    def _answer(self, driver: Any) -> list[Row]:
        """To what was just sent."""
        pgconn = driver.pgconn
        exchange: Any = generators.execute(pgconn)
        if self._polling is not None and self._polling.is_wanted:
            exchange = self._polling.awake(exchange, pgconn.socket)
        return self._read(driver, driver.wait(exchange))

    def _read(self, driver: Any, results: Any) -> list[Row]:
        for result in results:
            # Also behind a result: where the commit fails that the server makes of itself.
            if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
                raise error_from_result(result)
        result = results[0]
        if result.status == ExecStatus.COMMAND_OK:
            return []
        transformer = self._transformer or Transformer(driver)
        transformer.set_pgresult(result)
        rows = transformer.load_rows(0, result.ntuples, tuple)
        # It would hold on to it.
        transformer.set_pgresult(None)
        return rows


def typed_statements(cursor: Any, polling: BusyPolling) -> TypedStatements | None:
    """Of the connection of a cursor of Django's; None where somebody has chosen another kind of cursor, and may want to
    hear of each statement."""
    if type(cursor.cursor) is not USUAL:
        return None
    driver = cursor.cursor.connection
    prepares = driver.prepare_threshold is not None
    return TypedStatements(prepares=prepares, polling=polling, transformer=Transformer(driver))


def _is_begun(driver: Any) -> bool:
    return bool(driver.pgconn.transaction_status != TransactionStatus.IDLE)


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

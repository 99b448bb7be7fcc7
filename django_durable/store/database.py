"""Handles on the database: Django's own connection of this thread, or a private one of the engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, cached_property
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import durable_settings
from ..core import clock
from .busy_polling import BusyPolling
from .dialects import Dialect, dialect_of
from .kept_cursor import KeptCursor
from .statements import Typed

T = TypeVar("T", bound=str)
Row = tuple[Any, ...]
as_value = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
"""A value as the statements take it in JSON."""
PLAN_SECONDS = 60.0
MOST_TEXTS = 100
"""As many as psycopg keeps prepared."""
ONE_WRITER = threading.RLock()
"""Held by whoever of this process writes to SQLite."""


class Database:
    """Runs rendered SQL. ``rows`` is one round trip; ``transaction`` groups several."""

    def __init__(self, alias: str | None = None) -> None:
        self.alias = alias or durable_settings().DATABASE or DEFAULT_DB_ALIAS

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    @cached_property
    def dialect(self) -> Dialect:
        return dialect_of(self.connection.vendor)

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Execute one statement with named parameters; the rows that it returns, if it returns any."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if self.dialect.has_rows(cursor) else []

    def look_up(self, sql: Typed, **parameters: Any) -> list[Row]:
        """As ``rows``, for a statement that is planned well whatever its tables hold.

        So, outside of a transaction, it stays prepared where the project prepares statements, also on Django's own
        connection, which else prepares none. There it goes without a cursor, if nobody listens.
        """
        rows = self.dialect.typed_rows(self.connection, sql, parameters)
        return self.rows(sql, **parameters) if rows is None else rows

    def insert(self, sql: Typed, **parameters: Any) -> None:
        """As ``look_up``, for a statement that returns nothing; within a transaction it stays prepared too."""
        if self.dialect.typed_rows(self.connection, sql, parameters) is not None:
            return
        if durable_settings().PREPARED_STATEMENTS:
            self.dialect.cursor_of_thread(self.connection).execute(sql, parameters)
            return
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)

    def transaction(self) -> AbstractContextManager[Any]:
        """A transaction, or a savepoint where the caller is in one already."""
        return transaction.atomic(using=self.alias)

    @contextmanager
    def read_committed(self) -> Iterator[None]:
        """A transaction whose statements each see what is committed when they begin, whatever the project's default; a
        savepoint where the caller is in one already, with the isolation of that."""
        was_inside, first = self.connection.in_atomic_block, self.dialect.read_committed
        with self.transaction():
            if first and not was_inside:
                self.rows(first)
            yield

    @contextmanager
    def brief_transaction(self, seconds: float) -> Iterator[None]:
        """As ``read_committed``, for locking rows: statements wait for a lock no longer than ``seconds``, then the
        database refuses (``Dialect.is_lock_timeout``)."""
        d, was_inside = self.dialect, self.connection.in_atomic_block
        shorten = d.shorten_waits(seconds)
        with self.transaction():
            if not was_inside:
                # One round trip for both. Always said: Django does not know of a default of the server's or the role's.
                if first := "; ".join(filter(None, (d.read_committed, shorten))):
                    self.rows(first)
                yield
                return
            before = self.rows(shorten)[0][0] if shorten else None
            yield
            # Ours would end with our transaction. The caller's goes on, and its other statements may wait as before.
            if before is not None:
                self.rows(d.restore_waits(), before=before)


@cache
def database(alias: str) -> Database:
    """A handle for who needs one for a moment: to ask what dialect an alias has takes as long as making it."""
    return Database(alias)


class Plans:
    """Prepared statements have the plan of the day on which they were prepared: of tables that were empty then a
    worker would read every row, until the server has counted them anew. So each is prepared again after a second, two,
    four …, and then each minute."""

    def __init__(self) -> None:
        self._generation = 0
        self._ends_at = clock.monotonic() + 1.0
        self._texts: dict[str, Any] = {}

    def current(self, sql: T) -> T:
        """``sql`` as a statement of this time: psycopg knows statements by their text.

        The same object for the same statement: a cursor then keeps what it has learned of its types.
        """
        if (now := clock.monotonic()) >= self._ends_at:
            self._generation += 1
            self._ends_at = now + min(2.0**self._generation, PLAN_SECONDS)
            self._texts.clear()
        if (text := self._texts.get(sql)) is None:
            if len(self._texts) >= MOST_TEXTS:
                self._texts.clear()
            text = self._texts[sql] = type(sql)(f"{sql} /* plan {self._generation} */")
        return text


class PrivateDatabase(Database):
    """A connection of the engine's own: outside any pool, autocommit, READ COMMITTED whatever the project's default.

    Threads may hand it on but not share it: ``lock`` is held for each statement or transaction.
    """

    def __init__(self, alias: str | None = None) -> None:
        super().__init__(alias)
        self._wrapper = _private_copy(connections[self.alias])
        self.polling = BusyPolling()
        self._kept = KeptCursor(self._wrapper, self.dialect, self.polling)
        self._is_begun = False
        self._plans = Plans() if durable_settings().PREPARED_STATEMENTS and self.dialect.has_plans else None
        self._asked: object = None
        self._begins_read_committed = True
        # SQLite lets one connection write at a time. Here threads queue for it in order; left to SQLite they would
        # poll, with pauses of up to a tenth of a second.
        self.lock = ONE_WRITER if self.dialect.has_one_writer else threading.RLock()

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return self._wrapper

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        with self.lock:
            if self._plans is not None:
                sql = self._plans.current(sql)
            if self._is_begun or self._is_read_committed_alone():
                return self._rows(sql, parameters)
            with self.transaction():
                return self._rows(sql, parameters)

    def _rows(self, sql: str, parameters: dict[str, Any]) -> list[Row]:
        if self._kept.may_be_used:
            return self._kept.rows(sql, parameters)
        self._kept.hear_out()
        return super().rows(sql, **parameters)

    def rows_at_once(self, sql: Typed, **parameters: Any) -> list[Row] | None:
        """As ``rows``, for who must not sleep: an event loop. None where the answer does not come while the thread
        stays awake for it, or more is to be done first: then ``rows``, asked the same, brings it."""
        if not self.polling.is_promising or not self.lock.acquire(blocking=False):
            return None
        try:
            if self._is_begun or self._asked is not self._wrapper.connection or not self._begins_read_committed:
                return None
            text = sql if self._plans is None else self._plans.current(sql)
            return self._kept.rows_at_once(text, parameters)
        finally:
            self.lock.release()

    def insert(self, sql: Typed, **parameters: Any) -> None:
        # Its connection prepares whatever comes twice.
        self.rows(sql, **parameters)

    def look_up(self, sql: Typed, **parameters: Any) -> list[Row]:
        return self.rows(sql, **parameters)

    def _is_read_committed_alone(self) -> bool:
        """Whether a statement outside a transaction is READ COMMITTED, which only the server knows. Asked once of each
        session.

        Where it is not, each such statement gets a transaction that says so. Nothing sets it for the session: PgBouncer
        refuses the start-up parameter ``options``, and a SET would stay with the server's session, for its next client.
        What Django's ``isolation_level`` sets is told in BEGIN only, which autocommit never sends.
        """
        if self._asked is None or self._asked is not self._wrapper.connection:
            self._wrapper.ensure_connection()
            self._begins_read_committed = self._default_isolation() in (None, "read committed")
            self._asked = self._wrapper.connection
        return self._begins_read_committed

    def _default_isolation(self) -> str | None:
        if not (ask := self.dialect.ask_isolation):
            return None
        # A part of connecting, as what Django itself then asks and sets.
        with self._wrapper.wrap_database_errors, self._wrapper.create_cursor() as cursor:
            cursor.execute(ask)
            return str(cursor.fetchone()[0])

    def transaction(self) -> AbstractContextManager[None]:
        return self._begun(self.dialect.begin(durable_settings().LEASE_SECONDS))

    @contextmanager
    def read_committed(self) -> Iterator[None]:
        # It begins no others.
        with self.transaction():
            yield

    @contextmanager
    def brief_transaction(self, seconds: float) -> Iterator[None]:
        d = self.dialect
        # One round trip for both: every event and every child's end comes to a wake.
        first = filter(None, (d.begin(durable_settings().LEASE_SECONDS), d.shorten_waits(seconds)))
        with self._begun("; ".join(first)):
            yield

    @contextmanager
    def _begun(self, begin: str) -> Iterator[None]:
        with self.lock, self._new_cursor() as cursor:
            self._is_begun = True
            try:
                # Two statements: where the second is refused, the first has begun a transaction.
                cursor.execute(begin)
                yield
                # Where this fails (constraints that are checked at the end) SQLite leaves the transaction open.
                cursor.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._is_begun = False

    def _new_cursor(self) -> Any:
        self._kept.hear_out()
        return self._wrapper.cursor()

    def _roll_back(self) -> None:
        try:
            with self._wrapper.cursor() as cursor:
                cursor.execute("ROLLBACK")
            self._kept.rolled_back()
        except Exception:
            # The connection is gone, and the transaction with it.
            self._wrapper.close()

    def close(self) -> None:
        """Drop the connection; the next statement opens a new one."""
        with self.lock:
            self._kept.drop()
            self._wrapper.close()


def _private_copy(original: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    copy = original.copy()
    options = dict(copy.settings_dict.get("OPTIONS") or {})
    if copy.vendor == "postgresql":
        options.pop("pool", None)
        options.pop("isolation_level", None)
        options["server_side_binding"] = True
        if durable_settings().PREPARED_STATEMENTS:
            options["prepare_threshold"] = 2
    copy.settings_dict = {**copy.settings_dict, "OPTIONS": options, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False}
    copy.inc_thread_sharing()
    return copy


def as_json(rows: list[dict[str, Any]]) -> str:
    """Rows for ``Dialect.recordset``, to which a column that is not there is NULL: most of a row's are."""
    return as_value([{name: value for name, value in row.items() if value is not None} for row in rows])

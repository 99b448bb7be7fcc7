"""SQLite's fragments: the same as PostgreSQL's, where these are told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.db.utils import OperationalError

from ...core import clock
from ..busy_polling import BusyPolling
from ..statements import Typed


class SQLite:
    """SQLite 3.37 and newer. One writer at a time: BEGIN IMMEDIATE takes the place of every row lock."""

    vendor: ClassVar[str] = "sqlite"
    has_writing_ctes: ClassVar[bool] = False
    has_one_writer: ClassVar[bool] = True
    has_plans: ClassVar[bool] = False
    updated: ClassVar[str] = "django_durable_run"
    new_token: ClassVar[str] = "lower(hex(randomblob(16)))"  # noqa: S105  (SQL, not a secret)
    lock: ClassVar[str] = ""
    lock_runs: ClassVar[str] = ""
    wait_lock: ClassVar[str] = ""
    lock_kept: ClassVar[str] = ""
    lock_deleted: ClassVar[str] = ""
    read_committed: ClassVar[str] = ""
    ask_isolation: ClassVar[str] = ""
    lazily: ClassVar[str] = ""
    is_waited_for: ClassVar[str] = ""

    def _moved(self, instant: str, *modifiers: str) -> str:
        # %% because the text passes through parameter formatting.
        return "strftime(" + ", ".join(["'%%Y-%%m-%%d %%H:%%M:%%f'", instant, *modifiers]) + ")"

    @property
    def now(self) -> str:
        seconds = clock.offset_seconds()
        return self._moved("'now'", *([f"'{seconds:+f} seconds'"] if seconds else []))

    @property
    def now_unread(self) -> str:
        return self.now

    def later(self, seconds: str) -> str:
        return self.after(self.now, seconds)

    def after(self, instant: str, seconds: str) -> str:
        # printf, because SQLite writes small floats with an exponent, which its date functions do not read.
        moved = self._moved(instant, f"printf('%%+.6f seconds', {seconds})")
        return f"(CASE WHEN {seconds} IS NOT NULL THEN {moved} END)"

    def seconds_since(self, instant: str) -> str:
        return f"((julianday({self.now}) - julianday({instant})) * 86400.0)"

    def least(self, first: str, second: str) -> str:
        # SQLite's min() of two is NULL when one of them is.
        return f"coalesce(min({first}, {second}), {first}, {second})"

    def among(self, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each(%({parameter})s))"

    def among_ids(self, parameter: str) -> str:
        return self.among(parameter)

    def names(self, parameter: str, alias: str) -> str:
        return f"(SELECT value AS name FROM json_each(%({parameter})s)) AS {alias}"

    def first_runs(self, where: str, order: str, *, locks: bool = True, most: str | None = None) -> str:
        # CROSS JOIN keeps the order of the tables, so that the correlated list comes before the runs. ``most`` is left
        # to who asks: it names columns, which a LIMIT cannot here, and what is not needed is not locked either.
        return f"""CROSS JOIN django_durable_run AS r ON r.id IN (
            SELECT r.id FROM django_durable_run r WHERE {where} ORDER BY {order} LIMIT %(limit)s)"""

    def in_few(self, few: str) -> str:
        return f"IN ({few})"

    def size(self, text: str) -> str:
        return f"length({text})"

    def begins_with(self, column: str, prefix: str) -> str:
        return f"{column} LIKE '{prefix}%%' ESCAPE '\\'"

    def is_line_of(self, name: str, lines: str) -> str:
        return f"instr(char(10) || {lines} || char(10), char(10) || {name} || char(10)) > 0"

    def lies_within(self, column: str, low: str, high: str) -> str:
        return f"({column} >= ({low}) AND {column} < ({high}))"

    def last_first(self, column: str) -> str:
        return f"{column} DESC"

    def at_most(self, number: str, rows: str, order: str) -> str:
        # An OFFSET cannot name a column here.
        return f"(SELECT count(*) FROM ({rows})) <= {number}"

    def recordset(self, parameter: str, alias: str, columns: dict[str, str]) -> str:
        chosen = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
        return f"(SELECT {chosen} FROM json_each(%({parameter})s)) AS {alias}"

    def is_one_row(self, parameter: str) -> bool:
        return False

    def json_rows(self, *columns: str) -> str:
        return f"json_group_array(json_array({', '.join(columns)}))"

    def typed(self, parameter: str, kind: str) -> str:
        return f"%({parameter})s"

    def as_key(self, column: str) -> str:
        return column

    def record(self, alias: str, columns: dict[str, str]) -> str:
        return f"(SELECT {', '.join(f'%({name})s AS {name}' for name in columns)}) AS {alias}"

    def begin(self, idle: float) -> str:
        return "BEGIN IMMEDIATE"

    def shorten_waits(self, seconds: float) -> str:
        # The project's busy time-out bounds every wait for the one write lock.
        return ""

    def restore_waits(self) -> str:
        return ""

    def forbid_writes(self, is_nested: bool) -> str:
        # After BEGIN, which may take the write lock; the connection stays so until it is taken back.
        return "PRAGMA query_only = 1"

    def allow_writes(self) -> str:
        return "PRAGMA query_only = 0"

    def has_rows(self, cursor: Any) -> bool:
        return cursor.description is not None

    def cursor_of_thread(self, connection: Any) -> Any:
        return connection.cursor()

    def typed_rows(self, connection: Any, sql: Typed, parameters: Mapping[str, Any]) -> Any:
        return None

    def typed_statements(self, cursor: Any, polling: BusyPolling) -> Any:
        return None

    def makes_usual_cursors(self, connection: Any) -> bool:
        # To make one is cheap here.
        return False

    def is_lock_timeout(self, error: OperationalError) -> bool:
        return False

    def list(self, values: Iterable[Any]) -> Any:
        return json.dumps([self.key(value) if isinstance(value, UUID) else value for value in values])

    def texts(self, values: tuple[str, ...]) -> Any:
        return self.list(values)

    def ids(self, values: Iterable[UUID]) -> Any:
        return self.list(values)

    def key(self, value: UUID | None) -> Any:
        return None if value is None else value.hex

    def instant(self, value: datetime | None) -> Any:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")

    def read_key(self, value: Any) -> UUID:
        return UUID(value)

    def read_instant(self, value: Any) -> datetime | None:
        # Plain columns come back converted (Django registers converters for declared types), expressions as text.
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return None if value is None else value.replace(tzinfo=UTC)

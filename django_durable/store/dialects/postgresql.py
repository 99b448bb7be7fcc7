"""PostgreSQL's fragments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, ClassVar
from uuid import UUID

from django.db.utils import OperationalError

from ...core import clock
from ..busy_polling import BusyPolling
from ..statements import Typed

LOCK_NOT_AVAILABLE = "55P03"
"""PostgreSQL's word for a lock that was waited for in vain."""
TIES = 20
"""How many more runs are locked than are needed where they were queued at one instant, as by one start of many: the
index gives these in any order, and who has locked them goes by their ids."""


class PostgreSQL:
    """PostgreSQL 14 and newer through psycopg 3."""

    vendor: ClassVar[str] = "postgresql"
    has_writing_ctes: ClassVar[bool] = True
    has_one_writer: ClassVar[bool] = False
    has_plans: ClassVar[bool] = True
    """Whether prepared statements keep their plans."""
    updated: ClassVar[str] = "r"
    """What RETURNING calls the row that an UPDATE of runs AS r has written."""
    new_token: ClassVar[str] = "gen_random_uuid()"  # noqa: S105  (SQL, not a secret)
    # Ordered by primary key and without waiting: batches that wait for rows deadlock with the heartbeat.
    lock: ClassVar[str] = "FOR NO KEY UPDATE SKIP LOCKED"
    lock_runs: ClassVar[str] = "FOR NO KEY UPDATE OF r SKIP LOCKED"
    wait_lock: ClassVar[str] = "FOR NO KEY UPDATE"
    # No worker, and nobody who acts on a run, waits for the one that keeps it from being deleted.
    lock_kept: ClassVar[str] = "FOR KEY SHARE"
    lock_deleted: ClassVar[str] = "FOR UPDATE OF r SKIP LOCKED"
    read_committed: ClassVar[str] = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
    """The first statement of a transaction in which each statement sees what is committed when it begins."""
    ask_isolation: ClassVar[str] = "SHOW default_transaction_isolation"
    lazily: ClassVar[str] = "SELECT set_config('synchronous_commit', 'off', true)"
    """As a part of a statement: its transaction is committed without a wait for the disk."""
    is_waited_for: ClassVar[str] = """
        SELECT EXISTS (
            SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"""
    """Whether anybody waits for this session; empty where nobody holds rows. Not from pg_stat_activity, which stands
    still within a transaction and hides what sessions of other roles wait for."""

    @property
    def now(self) -> str:
        # Not now(), which stands still in a transaction, and not clock_timestamp(), which no index can serve.
        seconds = clock.offset_seconds()
        return f"(statement_timestamp() + interval '{seconds} seconds')" if seconds else "statement_timestamp()"

    @property
    def now_unread(self) -> str:
        """The same for ``read_instant`` alone: to make an instant of it in each row, of which one is read, took longer
        than the rest of the row."""
        return f"{self.now}::text"

    def later(self, seconds: str) -> str:
        return self.after(self.now, seconds)

    def after(self, instant: str, seconds: str) -> str:
        return f"({instant} + {seconds} * interval '1 second')"

    def seconds_since(self, instant: str) -> str:
        return f"extract(epoch FROM {self.now} - {instant})::double precision"

    def least(self, first: str, second: str) -> str:
        return f"LEAST({first}, {second})"

    def among(self, parameter: str) -> str:
        return f"= ANY(%({parameter})s)"

    def among_ids(self, parameter: str) -> str:
        """The same of ids by which there is one row each. Their number is hidden from the planner: a prepared statement
        whose list is shorter than the ten that it guesses is planned anew each time, which was half of a claim."""
        return f"= ANY(ARRAY(SELECT unnest(%({parameter})s::uuid[])))"

    def names(self, parameter: str, alias: str) -> str:
        """``parameter`` (a list of texts) as a table with the column ``name``."""
        return f"unnest(%({parameter})s::text[]) AS {alias}(name)"

    def first_runs(self, where: str, order: str, *, locks: bool = True, most: str | None = None) -> str:
        """Joins to each row on the left the first ``limit`` runs ``r``, locked, for which ``where`` holds there.

        ``most`` may say fewer of each row: these, and up to ``TIES`` that are as good as the last of them. LIMIT looks
        past those that somebody holds.
        """
        number = "%(limit)s"
        if most is not None:
            best = f"SELECT 1 FROM django_durable_run r WHERE {where} ORDER BY {order}"
            equals = f"SELECT 1 FROM ({best} FETCH FIRST ({most}) ROWS WITH TIES) AS t"
            number = f"(SELECT count(*) FROM ({equals} LIMIT {self.least(number, f'{most} + {TIES}')}) AS n)"
        return f"""CROSS JOIN LATERAL (
            SELECT r.id, r.queue, r.priority, r.queued_at, r.started_at, r.wake_at, r.cancel_requested_at, r.phase
            FROM django_durable_run r WHERE {where}
            ORDER BY {order} LIMIT {number} {self.lock if locks else ""}) AS r"""

    def in_few(self, few: str) -> str:
        """Is one of the values that the statement ``few`` selects, found through an index. A plain join to a parameter
        is planned for a hundred rows, as which the planner reads the whole table, up to some ten thousand runs."""
        return f"= ANY(ARRAY({few}))"

    def size(self, text: str) -> str:
        """How many bytes a stored value takes, which is ASCII. What is kept aside is not read for that."""
        return f"octet_length({text})"

    def begins_with(self, column: str, prefix: str) -> str:
        """As Django writes ``startswith`` in an index's condition: else the index would not be used."""
        return f"{column} LIKE '{prefix}%%'"

    def is_line_of(self, name: str, lines: str) -> str:
        """Whether ``name`` is a whole line of the text ``lines``."""
        return f"{name} = ANY(string_to_array({lines}, chr(10)))"

    def lies_within(self, column: str, low: str, high: str) -> str:
        """Whether a text is at least ``low`` and less than ``high`` byte by byte, whatever the database's collation:
        so that an index of patterns serves it."""
        return f"({column} ~>=~ ({low}) AND {column} ~<~ ({high}))"

    def last_first(self, column: str) -> str:
        """The order of ``lies_within``, backwards."""
        return f"{column} USING ~>~"

    def at_most(self, number: str, rows: str, order: str) -> str:
        """Whether there are no more of ``rows`` than ``number``, which is an expression; no more are looked at."""
        return f"({rows} ORDER BY {order} LIMIT 1 OFFSET {number}) IS NULL"

    def recordset(self, parameter: str, alias: str, columns: dict[str, str]) -> str:
        """``parameter`` (JSON array of objects) as a table with these columns; one parameter, however many rows."""
        described = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return f"json_to_recordset(%({parameter})s::json) AS {alias}({described})"

    def is_one_row(self, parameter: str) -> bool:
        """Whether the database sees that ``parameter`` has one row, and which run it is of."""
        return False

    def json_rows(self, *columns: str) -> str:
        """All rows of these columns as the text of a JSON array of arrays; NULL or an empty one where there is none."""
        return f"json_agg(json_build_array({', '.join(columns)}))::text"

    def typed(self, parameter: str, kind: str) -> str:
        """``parameter``, where nothing else in the statement says of what type it is."""
        return f"%({parameter})s::{kind}"

    def as_key(self, column: str) -> str:
        """An id as ``key`` writes it, for who looks up what is his by that."""
        return f"{column}::text"

    def record(self, alias: str, columns: dict[str, str]) -> str:
        """One row whose columns are parameters of the same names."""
        given = ", ".join(f"%({name})s::{kind} AS {name}" for name, kind in columns.items())
        return f"(SELECT {given}) AS {alias}"

    def begin(self, idle: float) -> str:
        """A process that freezes in a transaction, for ``idle`` seconds, loses its locks: others wait for them."""
        limit = f"SET LOCAL idle_in_transaction_session_timeout = {round(idle * 1000)}"
        return f"BEGIN ISOLATION LEVEL READ COMMITTED; {limit}"

    def shorten_waits(self, seconds: float) -> str:
        """Wait for locks ``seconds`` at most until this transaction ends; tells what held before.

        SET LOCAL, which PgBouncer's transaction mode allows; a limit of the project's own that is shorter stays.
        """
        # OFFSET 0: what held before is read before it is changed.
        return f"""
            SELECT s.before, set_config('lock_timeout', CASE
                WHEN s.before::interval BETWEEN interval '1 ms' AND interval '{seconds} s' THEN s.before
                ELSE '{round(seconds * 1000)}ms' END, true)
            FROM (SELECT current_setting('lock_timeout') AS before OFFSET 0) AS s"""

    def restore_waits(self) -> str:
        return "SELECT set_config('lock_timeout', %(before)s, true)"

    def forbid_writes(self, is_nested: bool) -> str:
        """In a transaction, before anything else; it ends with it. One of its own sees one moment only."""
        return "SET TRANSACTION " + ("READ ONLY" if is_nested else "ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def allow_writes(self) -> str:
        return ""

    def has_rows(self, cursor: Any) -> bool:
        """Whether its statement returned rows, or none of them. Not by ``description``: that makes an object of each
        column, for every statement."""
        result = cursor.pgresult
        return result is not None and result.nfields > 0

    def cursor_of_thread(self, connection: Any) -> Any:
        """A cursor of Django's that prepares what it executes, where it is of the usual kind; not to be closed, for
        statements that return nothing."""
        return _preparing().cursor_of_thread(connection)

    def typed_rows(self, connection: Any, sql: Typed, parameters: Mapping[str, Any]) -> Any:
        """What a statement returns on a connection of Django's, sent without a cursor; None: it has to be one's."""
        return _of_thread().typed_rows(connection, sql, parameters)

    def typed_statements(self, cursor: Any, polling: BusyPolling) -> Any:
        """What sends ``Typed`` statements on the connection of a cursor, awake for answers where ``polling`` says so;
        None where that is no usual one, and they are left to it."""
        return _typing().typed_statements(cursor, polling)

    def makes_usual_cursors(self, connection: Any) -> bool:
        """Whether one cursor may be used for many statements."""
        return bool(_preparing().makes_usual_cursors(connection))

    def is_lock_timeout(self, error: OperationalError) -> bool:
        return getattr(error.__cause__, "sqlstate", None) == LOCK_NOT_AVAILABLE

    def list(self, values: Iterable[Any]) -> Any:
        return list(values)

    def texts(self, values: tuple[str, ...]) -> Any:
        """The same as ``list``, of what comes with statement after statement: written once."""
        return _as_array(values)

    def ids(self, values: Iterable[UUID]) -> Any:
        """For ``among_ids``. As one text: psycopg writes each id of a list by a call of its own."""
        return f"{{{','.join([_text_of(value.int) for value in values])}}}"

    def key(self, value: UUID | None) -> Any:
        return None if value is None else _text_of(value.int)

    def instant(self, value: datetime | None) -> Any:
        return None if value is None else value.isoformat()

    def read_key(self, value: Any) -> UUID:
        return value  # type: ignore[no-any-return]

    def read_instant(self, value: Any) -> datetime | None:
        return datetime.fromisoformat(value) if isinstance(value, str) else value


@cache
def _preparing() -> ModuleType:
    # Here, because it imports psycopg; and once, since an import takes as long as making a cursor.
    from .. import preparing

    return preparing


@cache
def _of_thread() -> ModuleType:
    from .. import of_thread

    return of_thread


@cache
def _typing() -> ModuleType:
    from .. import typed_statements

    return typed_statements


@lru_cache(maxsize=64)
def _as_array(values: tuple[str, ...]) -> str:
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


@lru_cache(maxsize=4096)
def _text_of(number: int) -> str:
    """Of the UUID with this number, which is hashed in C as no UUID is. A run's id and its token go with each of its
    steps: to write them anew each time took a twentieth of the step."""
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

"""A history for a system that keeps its runs in PostgreSQL: many copies of what it has written of a finished one."""

from __future__ import annotations

import time
from typing import Any

DAY = 86_400.0
"""Seconds."""
IN_ROW = """SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


class Copies:
    """SQL for what differs from copy to copy: the number ``n``, and an instant that is ``SECONDS`` since 1970. They are
    spread evenly over the twenty days that ended yesterday."""

    def __init__(self, cursor: Any, count: int) -> None:
        self._cursor, self._count = cursor, count
        self.seconds = f"({time.time() - 21 * DAY:.3f} + n * {20 * DAY / count:.6f})"
        self.milliseconds = f"(1000 * {self.seconds})::bigint"
        self.at = f"to_timestamp({self.seconds})"

    def random_id(self, of: str) -> str:
        """Of the same original and number the same in every table."""
        return f"md5({of}::text || n)::uuid"

    def id_in_time(self, of: str) -> str:
        """The same as a UUIDv7 of the copy's instant."""
        noise = f"md5({of}::text || n)"
        instant = f"lpad(to_hex({self.milliseconds}), 12, '0')"
        return f"({instant} || '7' || substr({noise}, 1, 3) || '8' || substr({noise}, 4, 15))::uuid"

    def of(self, table: str, own: dict[str, str], where: str, without: str = "") -> None:
        """``own`` has SQL for the columns that are not as in ``old``, the row that is copied; ``without`` names one
        that the table fills itself. Raises ValueError for a query among them, which each copy would ask anew."""
        if any("SELECT" in sql.upper() for sql in own.values()):
            raise ValueError(f"a query for each copy: {own}")
        self._cursor.execute(IN_ROW, [table])
        columns = {name: f"old.{name}" for (name,) in self._cursor.fetchall() if name != without} | own
        self._cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
            f" FROM {table} old CROSS JOIN generate_series(0, {self._count - 1}) n WHERE {where}"
        )


def forget_later(cursor: Any, later: dict[str, str]) -> None:
    """Deletes what is no history: the rows of each table of which its condition is true."""
    for table, condition in later.items():
        cursor.execute(f"DELETE FROM {table} WHERE {condition}")
    settle(cursor, *later)


def settle(cursor: Any, *tables: str) -> None:
    """Statistics, a visibility map and a checkpoint as after a quiet hour."""
    for table in tables:
        cursor.execute(f"VACUUM (ANALYZE) {table}")
    cursor.execute("CHECKPOINT")

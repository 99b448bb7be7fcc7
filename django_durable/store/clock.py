"""The database's clock in ORM expressions: the same instant that the named SQL calls ``now``."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Expression

from .dialects import dialect_of


class DatabaseNow(Expression):
    """``statement_timestamp()`` on PostgreSQL, moved by the tests' clock; ``ago`` is seconds."""

    output_field = DateTimeField()

    def __init__(self, ago: float = 0.0) -> None:
        super().__init__()
        self._ago = ago

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:  # type: ignore[override]
        d = dialect_of(connection.vendor)
        return d.later(f"-({self._ago!r})") if self._ago else d.now, []

"""The database's clock in ORM expressions: the same instant that the named SQL calls ``now``."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import DateTimeField, Expression

from .dialects import dialect_of


class DatabaseNow(Expression):
    """``statement_timestamp()`` on PostgreSQL, moved by the tests' clock."""

    output_field = DateTimeField()

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:  # type: ignore[override]
        return dialect_of(connection.vendor).now, []

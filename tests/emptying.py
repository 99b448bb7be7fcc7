"""Empties the tables after a test that committed: by DELETE where there is little in them, on a connection that stays.

Django's TRUNCATE of some twenty tables takes PostgreSQL 45 ms and making the permissions anew 50, DELETE takes 1, and
thousands of tests commit. What has grown is truncated all the same: other tests count pages and look at plans.
Each new connection reads the catalogue anew, for every table and statement: a seventh of what such a test costs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.commands import flush
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations
from django.test import TransactionTestCase

LITTLE = 256 * 1024
"""Bytes of a table and its indexes that may be left to autovacuum."""

KEPT = {"django_content_type", "auth_permission"}
"""What Django fills after each migration, and tests only read."""


def empty_quickly() -> None:
    """Make ``flush`` on the test database quick, for the rest of this process."""
    operations = connection.ops
    truncate = operations.sql_flush

    def sql_flush(style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        emptied = [table for table in tables if table not in KEPT]
        if connection.vendor != "postgresql" or _has_grown(emptied) or options.get("reset_sequences"):
            return truncate(style, emptied, **options)
        # One transaction, at whose end the foreign keys of Django's own tables are checked.
        return ["; ".join(f"DELETE FROM {operations.quote_name(table)}" for table in emptied)]

    _replace(operations, sql_flush)
    flush.emit_post_migrate_signal = lambda *arguments, **options: None
    TransactionTestCase._should_reload_connections = lambda case: False  # type: ignore[attr-defined]


def _replace(operations: BaseDatabaseOperations, sql_flush: Any) -> None:
    operations.sql_flush = sql_flush  # type: ignore[method-assign]


def _has_grown(tables: Sequence[str]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT max(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) name", [tables])
        [(largest,)] = cursor.fetchall()
    return largest is not None and largest > LITTLE

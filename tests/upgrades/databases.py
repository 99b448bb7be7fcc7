"""A database beside the test database, and what a database looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

DEFINITIONS = {
    "postgresql": (
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'django_durable_%%'",
        "SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid::regclass::text LIKE 'django_durable_%%'",
        "SELECT relname || ' options', array_to_string(reloptions, ' ') FROM pg_class"
        " WHERE relkind = 'r' AND relname LIKE 'django_durable_%%'",
    ),
    "sqlite": ("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'django_durable_%%'",),
}


@contextmanager
def empty_database(folder: Path) -> Iterator[None]:
    """Within the block the default connection leads to a database that has nothing in it."""
    own = str(connection.settings_dict["NAME"])
    on_server = connection.vendor == "postgresql"
    name = f"{own}_upgrade" if on_server else str(folder / "upgrade.sqlite3")
    if on_server:
        execute(f"CREATE DATABASE {name}")
    lead_to(name)
    try:
        yield
    finally:
        lead_to(own)
        if on_server:
            execute(f"DROP DATABASE {name} WITH (FORCE)")


def lead_to(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def execute(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [])
        return cursor.fetchall() if cursor.description else []


def catalogue() -> dict[str, Any]:
    """Columns, constraints and indexes of our tables, and on PostgreSQL how they are stored."""
    looks = connection.introspection
    found: dict[str, Any] = {}
    with connection.cursor() as cursor:
        for table in looks.table_names(cursor):
            if table.startswith("django_durable_"):
                found[table] = looks.get_table_description(cursor, table), looks.get_constraints(cursor, table)
    for query in DEFINITIONS[connection.vendor]:
        found.update(execute(query))
    return found

"""The database: does it answer, how fast, are the tables there, how large have they become."""

from __future__ import annotations

import time
from datetime import datetime
from typing import cast

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

from ....core import clock
from ....store.database import Database
from ....store.sql.pruning import now as select_now
from .section import Section

PINGS = 5
SKEW_SECONDS = 5.0
SIZES = """
    SELECT relname, greatest(reltuples, 0)::bigint, pg_total_relation_size(oid)
    FROM pg_class WHERE oid = to_regclass(%(table)s)"""


def database_now() -> datetime:
    db = Database()
    return cast(datetime, db.dialect.read_instant(db.rows(select_now(db.dialect))[0][0]))


def examine_database(section: Section) -> None:
    connection = Database().connection
    connection.ensure_connection()
    section.facts = {
        "alias": connection.alias,
        "vendor": connection.vendor,
        "version": ".".join(map(str, connection.get_database_version())),
        "ping_ms": _ping(),
        "clock_ahead_s": round((database_now() - clock.utcnow()).total_seconds(), 3),
    }
    if abs(section.facts["clock_ahead_s"]) > SKEW_SECONDS:
        section.notes.append(
            f"The clocks of this machine and the database differ by {section.facts['clock_ahead_s']} s: "
            "due times go by the database's."
        )
    if pending := _pending(connection):
        section.problems.append(f"Migrations are not applied: {', '.join(pending)}. Run manage.py migrate.")
    else:
        section.facts["tables"] = _sizes(connection)


def _ping() -> float:
    """The median, in milliseconds."""
    taken = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        database_now()
        taken.append(time.perf_counter() - begun)
    return round(sorted(taken)[PINGS // 2] * 1000, 3)


def _pending(connection: BaseDatabaseWrapper) -> list[str]:
    executor = MigrationExecutor(connection)
    ours = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "django_durable"]
    return [str(migration) for migration, _ in executor.migration_plan(ours)]


def _sizes(connection: BaseDatabaseWrapper) -> dict[str, dict[str, int]]:
    """Rows as the database estimates them, without counting; bytes with indexes where it knows them."""
    tables = [model._meta.db_table for model in apps.get_app_config("django_durable").get_models()]
    sizes: dict[str, dict[str, int]] = {}
    with connection.cursor() as cursor:
        for table in sorted(tables):
            if connection.vendor == "postgresql":
                cursor.execute(SIZES, {"table": table})
                _, rows, size = cursor.fetchone()
                sizes[table] = {"rows": rows, "bytes": size}
            else:
                # Row ids only grow while rows are added at the end: the largest is at least the count.
                cursor.execute(f"SELECT coalesce(max(rowid), 0) FROM {connection.ops.quote_name(table)}")  # noqa: S608
                sizes[table] = {"rows": cursor.fetchone()[0]}
    return sizes

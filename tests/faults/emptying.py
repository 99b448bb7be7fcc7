"""Empty tables between two cases, at the cost of the few rows that are in them."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.db import connection, transaction

TRUNCATED_EACH = 100
"""After having been emptied so often the dead rows go too, on PostgreSQL."""
_emptied = 0


def empty(is_postgres: bool) -> None:
    """Delete the rows of the package and of the tests' models."""
    global _emptied
    _emptied += 1
    with connection.cursor() as cursor:
        if is_postgres and _emptied % TRUNCATED_EACH == 0:
            cursor.execute(f"TRUNCATE {', '.join(_tables())} CASCADE")
        elif is_postgres:
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in _tables()))
        else:
            with transaction.atomic():
                for table in _tables():
                    cursor.execute(f"DELETE FROM {table}")


def empty_lists() -> None:
    """Forget the hints."""
    if settings.QUEUE == "redis":
        from django_redis import get_redis_connection

        get_redis_connection("default").flushdb()


def are_lists_empty() -> bool:
    """Whether nobody is told of anything."""
    if settings.QUEUE != "redis":
        return True
    from django_redis import get_redis_connection

    return not get_redis_connection("default").dbsize()


@cache
def _tables() -> list[str]:
    """Children before their parents."""
    from django.apps import apps

    ours = [apps.get_app_config(label) for label in ("app", "django_durable")]
    tables = [model._meta.db_table for config in ours for model in config.get_models(include_auto_created=True)]
    first = [name for name in tables if name.endswith(("_run", "_schedule"))]
    return [connection.ops.quote_name(name) for name in (*(one for one in tables if one not in first), *first)]

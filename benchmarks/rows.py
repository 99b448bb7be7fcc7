"""A table's past and future in seconds: many copies of one real run, made by PostgreSQL itself.

The run is one that the engine has written, so the copies have whatever a real row has; only their ids and their times
are their own. Whoever copies a finished run copies its journal and its payloads as well.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

NEW_AT = "to_timestamp((%(first)s + copy.n * %(step)s) / 1000.0)"
NOISE = "md5(copy.n::text || %(template)s)"
NEW_ID = (
    "(lpad(to_hex((%(first)s + copy.n * %(step)s)::bigint), 12, '0')"
    f" || '7' || substr({NOISE}, 1, 3) || '8' || substr({NOISE}, 4, 15))::uuid"
)
"""As a UUIDv7 of that instant: of the same number the same in every table."""


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def id_at(instant: int) -> UUID:
    """Not greater than any id of that millisecond or a later one."""
    return UUID(int=instant << 80)


def multiply(template: UUID, count: int, *, first: int, step: float) -> None:
    """``count`` copies of a run, created ``step`` milliseconds after each other, the first at ``first``.

    Every other instant of the run keeps its distance: what is due an hour after its start is so in each copy.
    """
    from django.db import connection, models

    from django_durable.models import JournalEntry, Payload, Run

    values = {"template": str(template), "count": count, "first": first, "step": step}
    with connection.cursor() as cursor:
        for model, key in ((Run, "id"), (JournalEntry, "run_id"), (Payload, "run_id")):
            fields = [field for field in model._meta.concrete_fields if field.column]
            times = {field.column for field in fields if isinstance(field, models.DateTimeField)}
            own = {key: NEW_ID, "root_id": NEW_ID} | {
                column: f"old.{column} + ({NEW_AT} - run.created_at)" for column in times
            }
            columns = [field.column for field in fields]
            cursor.execute(
                f"INSERT INTO {model._meta.db_table} ({', '.join(columns)})"
                f" SELECT {', '.join(own.get(column, f'old.{column}') for column in columns)}"
                f" FROM {model._meta.db_table} old JOIN {Run._meta.db_table} run ON run.id = %(template)s"
                f" CROSS JOIN generate_series(0, %(count)s - 1) copy (n) WHERE old.{key} = %(template)s",
                values,
            )


def settle(*, after: UUID | None = None) -> None:
    """Statistics, a visibility map and a checkpoint as after a quiet hour. ``after``: first without later runs."""
    from django.db import connection

    from django_durable.models import JournalEntry, Payload, Run, Worker

    with connection.cursor() as cursor:
        if after is not None:
            for model, key in ((Run, "id"), (JournalEntry, "run_id"), (Payload, "run_id")):
                cursor.execute(f"DELETE FROM {model._meta.db_table} WHERE {key} > %s", [after])
            cursor.execute(f"TRUNCATE {Worker._meta.db_table}")
        for model in (Run, JournalEntry, Payload):
            cursor.execute(f"VACUUM (ANALYZE) {model._meta.db_table}")
        cursor.execute("CHECKPOINT")


def push_queued(at_most: int = 100_000, batch: int = 1_000) -> None:
    """Tell the queue of what is queued, oldest first: as many as a list of Redis holds."""
    from django_durable.models import Run
    from django_durable.queues.current import current_queue
    from django_durable.queues.ready import Ready

    rows = Run.objects.filter(status="queued").order_by("queued_at").values_list("id", "queue", "priority")
    ready = [Ready(*row) for row in rows[:at_most]]
    for start in range(0, len(ready), batch):
        current_queue().push(ready[start : start + batch])


def forget_queue() -> None:
    """Ids of runs that are gone would be popped all the same."""
    from django_durable.queues.current import queue_kind

    if queue_kind() == "redis":
        from django_redis import get_redis_connection

        get_redis_connection("default").flushdb()


def lags(first: UUID, last: UUID, after: float) -> list[float]:
    """Of the runs with ids from ``first`` to ``last``: sorted milliseconds from the instant at which each came due,
    ``after`` seconds after it was created, to its claim. Raises AssertionError where one was not claimed."""
    from django_durable.models import Run

    found: list[Any] = list(Run.objects.filter(pk__range=(first, last)).values_list("created_at", "started_at"))
    assert all(started for _, started in found), "not all of them were claimed"
    return sorted(1000 * ((started - created).total_seconds() - after) for created, started in found)

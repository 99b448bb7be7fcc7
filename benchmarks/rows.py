"""A table's past and future in seconds: many copies of one real run, made by PostgreSQL itself.

The run is one that the engine has written, so the copies have whatever a real row has; only their ids and their times
are their own. Whoever copies a run copies whatever belongs to it as well.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from django.db.models import Field, Model

NEW_MS = "(%(first)s + copy.n * %(step)s)"
"""When a copy was created, which is what its id begins with."""
NEW_AT = f"to_timestamp({NEW_MS} / 1000.0)"


def new_id(run: str) -> str:
    """SQL: the id of a copy of the run that the query calls so, a UUIDv7 of the instant at which the copy was created.

    Of the same number the same in every table.
    """
    noise = f"md5(copy.n::text || {run}.id)"
    instant = f"{NEW_MS} + 1000 * extract(epoch FROM {run}.created_at - origin.created_at)"
    return (
        f"(lpad(to_hex(({instant})::bigint), 12, '0')"
        f" || '7' || substr({noise}, 1, 3) || '8' || substr({noise}, 4, 15))::uuid"
    )


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def id_at(instant: int) -> UUID:
    """Not greater than any id of that millisecond or a later one."""
    return UUID(int=instant << 80)


def multiply(
    template: UUID,
    count: int,
    *,
    first: int,
    step: float,
    begin: int = 0,
    children: Sequence[UUID] = (),
    varied: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """``count`` copies of a run, created ``step`` milliseconds after each other, the one with number 0 at ``first``;
    ``begin`` is the number of the first that is made.

    Every other instant of the run keeps its distance: what is due an hour after its start is so in each copy.
    ``children`` are copied with it. ``varied`` has SQL for columns (of a table, by its name) that differ from copy to
    copy, in which ``copy.n`` is the number, ``run`` the run that is copied and ``old`` the row.
    """
    from django.db import connection

    from django_durable.models import Run

    runs = Run._meta.db_table
    values = {"template": template, "first": first, "step": step, "begin": begin, "end": begin + count - 1}
    values["members"] = [template, *children]
    with connection.cursor() as cursor:
        for model, key in tables():
            fields = (field for field in model._meta.concrete_fields if field.column and not is_serial(field))
            columns = {field.column: f"old.{field.column}" for field in fields} | _own(model, key)
            columns |= {column: sql for (table, column), sql in (varied or {}).items() if table == model._meta.db_table}
            cursor.execute(
                f"INSERT INTO {model._meta.db_table} ({', '.join(columns)})"
                f" SELECT {', '.join(columns.values())}"
                f" FROM {model._meta.db_table} old JOIN {runs} run ON run.id = old.{key}"
                f" JOIN {runs} origin ON origin.id = %(template)s LEFT JOIN {runs} parent ON parent.id = run.parent_id"
                f" CROSS JOIN generate_series(%(begin)s, %(end)s) copy (n) WHERE old.{key} = ANY(%(members)s::uuid[])",
                values,
            )


def _own(model: type[Model], key: str) -> dict[str, str]:
    """SQL for the columns that no copy has as its original has them."""
    from django.db import models

    from django_durable.models import Run

    times = (field.column for field in model._meta.concrete_fields if isinstance(field, models.DateTimeField))
    own = {column: f"old.{column} + ({NEW_AT} - origin.created_at)" for column in times} | {key: new_id("run")}
    if model is not Run:
        return own
    return own | {"root_id": new_id("origin"), "parent_id": f"CASE WHEN parent.id NOTNULL THEN {new_id('parent')} END"}


def tables() -> list[tuple[type[Model], str]]:
    """What a run consists of, each table with the column that has the run's id; fires belong to their schedules."""
    from django.apps import apps

    from django_durable.models import Fire, Run

    others = [model for model in apps.get_app_config("django_durable").get_models() if model not in (Run, Fire)]
    return [(Run, "id"), *((model, "run_id") for model in others if "run_id" in columns_of(model))]


def columns_of(model: type[Model]) -> set[str]:
    return {field.column for field in model._meta.concrete_fields}


def is_serial(field: Field[Any, Any]) -> bool:
    from django.db import models

    return isinstance(field, models.AutoField)


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
    """Of the runs with ids from ``first`` to ``last``: sorted milliseconds from the instant at which each one's sleep
    was over, ``after`` seconds after it was created, to its second claim. Raises AssertionError where one has none."""
    from django_durable.models import ClaimRecord, Run

    created = dict(Run.objects.filter(pk__range=(first, last)).values_list("pk", "created_at"))
    records = ClaimRecord.objects.filter(run_id__range=(first, last), number=2)
    woken = dict(records.values_list("run_id", "claimed_at"))
    assert woken.keys() == created.keys(), "not all of them were claimed again"
    return sorted(1000 * ((woken[run_id] - at).total_seconds() - after) for run_id, at in created.items())

"""What five weeks have left in the tables: copies of the templates day by day, workers, schedules and their fires."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

from benchmarks import rows

from .templates import CUSTOMER, DAY, KEY, WEEKS, Template, make_templates
from .workflows import CHARGES, CHECKOUTS, CHILDREN, IMPORTS, LARGE, LONG, LONG_NAMED, ORDERS, SENDING, SLOW, Name

SEED = 5
CUSTOMERS = 50_000
ALIVE, GONE = 6, 250
"""Workers: a deploy a day, each with six of them, leaves many rows behind."""
ALL_QUEUES = ALIVE // 2
"""Of each deploy's workers so many serve every queue."""
SLOTS = 32
SCHEDULES, FIRES = 40, 300


class NotEmpty(Exception):
    """There are runs already, which nothing here may touch."""


def seed(count: int, more: Callable[[], list[Template]] = list) -> dict[str, int]:
    """Make about ``count`` runs and what goes with them; rows by table. ``more`` makes templates beside the usual ones.
    Raises NotEmpty."""
    from django_durable.models import Run

    if Run.objects.exists():
        raise NotEmpty("This database has runs already: name an empty one.")
    workers = _workers()
    templates = make_templates(more)
    for day in range(WEEKS // DAY):
        # By the day, so that rows lie in the tables about as they came, whatever they are copies of.
        for template in templates:
            _copy(template, count, day, workers)
    for template in templates:
        template.remove()
    _fires(_schedules())
    _tally()
    _settle()
    return _counts()


def beat() -> None:
    """The workers are alive: as if they had just said so."""
    from django.db.models.functions import Now

    from django_durable.models import Worker

    Worker.objects.filter(stopped_at=None).update(heartbeat_at=Now())


def _copy(template: Template, count: int, day: int, workers: Sequence[UUID]) -> None:
    days = WEEKS // DAY
    wanted = template.copies_of(count)
    begin, end = wanted * day // days, wanted * (day + 1) // days
    if end > begin:
        since, until = (
            rows.milliseconds() - round(1000 * at.total_seconds()) for at in (template.since, template.until)
        )
        rows.multiply(
            template.run,
            end - begin,
            first=since,
            # Short of now: the last one has to be over by now.
            step=(until - since) / (wanted + 1),
            begin=begin,
            children=template.children,
            varied=_varied(template, workers),
        )


def _varied(template: Template, workers: Sequence[UUID]) -> dict[tuple[str, str], str]:
    """What a copy has of its own besides its id and its times."""
    from django_durable.models import ClaimRecord, IdempotencyKey, Run, Tag

    run, key, tag, claim = (model._meta.db_table for model in (Run, IdempotencyKey, Tag, ClaimRecord))
    names = random.Random(SEED).choices(template.names, [1 / (n + 1) for n in range(len(template.names))], k=199)
    workflow, queue = (_by_turns([name[part] for name in names], "text") for part in (0, 1))
    new_key = f"'{KEY}-' || {rows.new_id('run')}"
    return {
        (run, "workflow"): f"CASE WHEN run.id = origin.id THEN {workflow} ELSE old.workflow END",
        (run, "queue"): f"CASE WHEN run.id = origin.id THEN {queue} ELSE old.queue END",
        (run, "leased_by"): f"CASE WHEN old.leased_by NOTNULL THEN {_worker(workers, 'now()', 'old.claims')} END",
        (run, "started_by"): f"CASE WHEN old.started_by NOTNULL THEN {_worker(workers, _at('started_at'), '1')} END",
        (claim, "worker_id"): _worker(workers, _at("claimed_at"), "old.number"),
        (key, "workflow"): workflow,
        (key, "key"): new_key,
        (key, "key_hash"): f"encode(sha256(convert_to({new_key}, 'UTF8')), 'hex')",
        (tag, "name"): f"CASE old.name WHEN '{CUSTOMER}' THEN 'customer-' || 1 + copy.n * 7919::bigint %% {CUSTOMERS}"
        " ELSE old.name END",
    }


def _by_turns(values: Sequence[str], kind: str) -> str:
    """SQL: one of the values, which hold nothing that would have to be quoted."""
    return f"('{{{','.join(values)}}}'::{kind}[])[1 + copy.n %% {len(values)}]"


def _at(column: str) -> str:
    """SQL: what this instant of a row is in its copy."""
    return f"(old.{column} + ({rows.NEW_AT} - origin.created_at))"


def _worker(workers: Sequence[UUID], at: str, number: str) -> str:
    """SQL: one of those that were alive at an instant, which made the claim with this ``number`` of the run."""
    # Each lives for a day and three hours: an hour into it those of the day before are left alone.
    days = f"greatest(floor((extract(epoch FROM now() - {at}) - 3600) / 86400)::int + 1, 0)"
    ids = ",".join(str(worker) for worker in workers)
    return f"('{{{ids}}}'::uuid[])[1 + {ALL_QUEUES} * {days} + (copy.n + {number})::int %% {ALL_QUEUES}]"


def _workers() -> list[UUID]:
    """Of each deploy the same six; the ids of those that serve every queue, the latest deploy's first."""
    from django_durable.models import Worker

    now, made = _now(), []
    queues = sorted({queue for _, queue in _all_names()})
    workflows = sorted([*(name for name, _ in _all_names()), *CHILDREN])
    for number in range(ALIVE + GONE):
        days = number // ALIVE
        stopped = None if number < ALIVE else now - timedelta(days=days - 1, seconds=number)
        worker = Worker(
            id=uuid4(),
            host=f"web-{number % ALIVE + 1}.example.net",
            pid=1_000 + number,
            queues=queues if number % 2 else queues[:2],
            workflows=workflows,
            concurrency=SLOTS,
            version=f"2.{40 - days // 2}.{1 - days % 2}",
            started_at=now - timedelta(days=days, hours=3),
            heartbeat_at=stopped or now,
            stopped_at=stopped,
        )
        made.append(worker)
    Worker.objects.bulk_create(made)
    return [worker.id for worker in made if worker.queues == queues]


def _all_names() -> list[Name]:
    return [*SENDING, *ORDERS, *SLOW, *IMPORTS, *LONG, *CHARGES, *CHECKOUTS, *LARGE, *LONG_NAMED]


def _schedules() -> list[Any]:
    """Most from code; some are off, one is late, one cannot be planned."""
    from django_durable.models import Schedule

    now, names = _now(), _all_names()
    made = [
        Schedule(
            workflow=names[number % len(names)][0],
            name=f"{'nightly' if number % 3 else 'hourly'} {number}",
            app_label="" if number % 5 == 0 else "shop",
            expression=f"{number} {number % 24} * * *" if number % 3 else f"{number} * * * *",
            timezone="Europe/Berlin" if number % 2 else "UTC",
            enabled=number % 7 != 0,
            next_fire_at=now + timedelta(minutes=17 * number - 20),
            last_scheduled_for=_last(now, number),
            problem="There is no time zone Mars/Olympus." if number == SCHEDULES - 1 else "",
        )
        for number in range(SCHEDULES)
    ]
    return Schedule.objects.bulk_create(made)


def _every(number: int) -> timedelta:
    return timedelta(days=1) if number % 3 else timedelta(hours=1)


def _last(now: datetime, number: int) -> datetime:
    """When the schedule with this number, and an expression made from it, was due last."""
    if number % 3:
        now = now.replace(hour=number % 24)
    return now.replace(minute=number, second=0, microsecond=0) - _every(number)


def _fires(schedules: Sequence[Any]) -> None:
    """Of each the last hundreds; most have started a run, which is gone by now where it is old."""
    from django_durable.models import Fire, Run

    newest = Run.objects.filter(status="succeeded").order_by("-pk").values_list("pk", flat=True)
    Fire.objects.bulk_create(_fires_of(schedules, iter(newest[: len(schedules) * FIRES])), batch_size=2_000)


def _fires_of(schedules: Sequence[Any], runs: Iterator[UUID]) -> Iterator[Any]:
    from django_durable.models import Fire

    for turn in range(FIRES):
        for number, schedule in enumerate(schedules):
            at = schedule.last_scheduled_for - turn * _every(number)
            run_id = next(runs, None) if turn % 10 else None
            outcome = "started" if run_id else "skipped"
            yield Fire(schedule=schedule, scheduled_for=at, fired_at=at, run_id=run_id, outcome=outcome)


def _tally() -> None:
    """What the workers would have counted of these runs, as long as such counts are kept; and which steps failed."""
    from django_durable.core.histogram import bucket_of
    from django_durable.models import Run
    from django_durable.store.database import Database
    from django_durable.store.pruning import TALLIED
    from django_durable.store.tallying import Counted, add

    since = _now() - timedelta(seconds=TALLIED)
    counts: Counter[Counted] = Counter()
    for run in Run.objects.filter(started_at__gte=since).iterator():
        counts[Counted(_minute(run.started_at), run.workflow, run.queue, "started")] += 1
        if run.finished_at is not None:
            minute, took = _minute(run.finished_at), (run.finished_at - run.started_at).total_seconds()
            counts[Counted(minute, run.workflow, run.queue, run.status, bucket_of(took))] += 1
            if run.status == "failed":
                counts[Counted(minute, run.workflow, run.queue, "failed", step="charge")] += 1
    some = iter(counts.items())
    while batch := dict(islice(some, 5_000)):
        add(Database(), batch)


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _settle() -> None:
    """Statistics and a visibility map as autovacuum has them after a quiet hour, of every table."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")


def _counts() -> dict[str, int]:
    from django.apps import apps

    models = apps.get_app_config("django_durable").get_models()
    return {str(model._meta.verbose_name_plural): model._default_manager.count() for model in models}


def _now() -> datetime:
    from django.utils import timezone

    return timezone.now()

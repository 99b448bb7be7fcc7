"""What five weeks have left in the tables: copies of the templates day by day, workers, schedules and their fires."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID, uuid4

from benchmarks import rows

from .templates import CUSTOMER, DAY, HOUR, KEY, WEEKS, Template, make_templates
from .workflows import CHARGES, CHECKOUTS, CHILDREN, IMPORTS, LARGE, LONG, LONG_NAMED, ORDERS, SENDING, SLOW, Name

SEED = 5
CUSTOMERS = 50_000
ALIVE, GONE = 6, 250
"""Workers: a deploy a day, each with six of them, leaves many rows behind."""
ALL_QUEUES = ALIVE // 2
"""Of each deploy's workers so many serve every queue."""
SLOTS = 32
SCHEDULES, FIRES = 40, 300
LATE, LATENESS = 3, timedelta(minutes=20)
"""Which of the schedules is late, and by how much at least."""


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
    """Most from code; some are off, one is late, one has lost its time zone."""
    from django_durable.models import Schedule

    now, names = _now(), _all_names()
    made = [
        Schedule(
            workflow=names[number % len(names)][0],
            name=f"{'nightly' if number % 3 else 'hourly'} {number}",
            app_label="" if number % 5 == 0 else "shop",
            expression=f"{number} {number % 24} * * *" if number % 3 else f"{number} * * * *",
            timezone="Mars/Olympus" if number == SCHEDULES - 1 else "Europe/Berlin" if number % 2 else "UTC",
            enabled=number % 7 != 0,
        )
        for number in range(SCHEDULES)
    ]
    for number, schedule in enumerate(made):
        _plan(schedule, now, is_late=number == LATE)
    return Schedule.objects.bulk_create(made)


def _plan(schedule: Any, now: datetime, *, is_late: bool) -> None:
    """As a worker does that looks at it. One that is off was turned off three days ago."""
    from django_durable.store.scheduling import plan_anew

    plan_anew(schedule, now)
    if is_late:
        schedule.last_scheduled_for, schedule.next_fire_at = _due(schedule, now - LATENESS, 2)
    elif not schedule.problem:
        [schedule.last_scheduled_for] = _due(schedule, now if schedule.enabled else now - 3 * DAY, 1)


def _due(schedule: Any, until: datetime, count: int) -> list[datetime]:
    """The last instants until then."""
    from django_durable.core.schedules.cron import fires_between

    every = DAY if schedule.name.startswith("nightly") else HOUR
    # One more, and an hour that the clocks were set back by.
    since = until - (count + 1) * every - HOUR
    return fires_between(schedule.expression, schedule.timezone, since, until, count + 4)[-count:]


def _fires(schedules: Iterable[Any]) -> None:
    """Of each the last hundreds; most have started a run, which is gone by now where it is old."""
    from django_durable.models import Fire

    planned = [schedule for schedule in schedules if schedule.last_scheduled_for]
    Fire.objects.bulk_create((fire for schedule in planned for fire in _fires_of(schedule)), batch_size=2_000)


def _fires_of(schedule: Any) -> Iterator[Any]:
    from django_durable.models import Fire, Run
    from django_durable.store.scheduling import FIRED, OVERLAPS

    newest = Run.objects.filter(status="succeeded", workflow=schedule.workflow).order_by("-pk")
    runs = iter(newest.values_list("pk", flat=True)[:FIRES])
    for turn, at in enumerate(reversed(_due(schedule, schedule.last_scheduled_for, FIRES))):
        is_skipped = turn % 10 == 5
        yield Fire(
            schedule=schedule,
            scheduled_for=at,
            fired_at=at + timedelta(milliseconds=40),
            run_id=None if is_skipped else next(runs, None) or uuid4(),
            outcome=OVERLAPS if is_skipped else FIRED,
        )


def _tally() -> None:
    """What the workers would have counted of these runs, as long as such counts are kept; and which steps failed."""
    from django_durable.core.histogram import bucket_of
    from django_durable.models import Run
    from django_durable.store.database import Database
    from django_durable.store.pruning import TALLIED
    from django_durable.store.tallying import Counted, add

    since = _now() - timedelta(seconds=TALLIED)
    steps = _failing_steps(since)
    counts: Counter[Counted] = Counter()
    for run in Run.objects.filter(started_at__gte=since).iterator():
        counts[Counted(_minute(run.started_at), run.workflow, run.queue, "started")] += 1
        if run.finished_at is not None:
            minute, took = _minute(run.finished_at), (run.finished_at - run.started_at).total_seconds()
            counts[Counted(minute, run.workflow, run.queue, run.status, bucket_of(took))] += 1
            if step := steps.get(run.pk):
                counts[Counted(minute, run.workflow, run.queue, "failed", step=step)] += 1
    some = iter(counts.items())
    while batch := dict(islice(some, 5_000)):
        add(Database(), batch)


def _failing_steps(since: datetime) -> dict[UUID, str | None]:
    """In which step each run failed, as a worker reads it from the run's error."""
    from django_durable.core.journal.outcomes import Failed
    from django_durable.core.payloads.codec import decode
    from django_durable.models import Payload
    from django_durable.worker.tallies import failing_step

    errors = Payload.objects.filter(kind="error", run__status="failed", run__started_at__gte=since)
    return {run_id: failing_step(Failed(decode(data))) for run_id, data in errors.values_list("run_id", "data")}


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

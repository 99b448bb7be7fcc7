"""A night of trouble on top of what five weeks have left: what the pictures of the admin are to show.

The payment gateway has not answered for forty minutes, an import has rows that cannot be stored, somebody has held a
queue and a workflow. How many there are does not depend on how many runs there are beside them.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from . import workflows as work
from .templates import DAY, HOUR, Template, children_of, over

MINUTE = timedelta(minutes=1)
IMPORT = "parcels of the carrier, every night"
HELD, WAITING = "webhooks", 7
"""The queue that is held, and how many runs are ready in it."""


def make_night() -> list[Template]:
    """To be made before whatever waits: see ``make_templates``."""
    sent = over(work.SENDING, number=1)
    checkout = over(work.CHECKOUTS, number=1)
    named = over(work.LONG_NAMED, number=1)
    large = over(work.LARGE, number=1)
    return [
        Template(sent, 0, work.SENDING, since=DAY, exactly=1_500),
        # Each a day after the other, two hours ago at last.
        Template(large, 0, work.LARGE, since=50 * HOUR, until=-46 * HOUR, children=children_of(large), exactly=3),
        Template(named, 0, work.LONG_NAMED, since=38 * MINUTE, until=12 * MINUTE, exactly=2),
        Template(checkout, 0, work.CHECKOUTS, since=40 * MINUTE, until=3 * MINUTE, exactly=137),
    ]


def fall() -> None:
    """What is not in the runs: two holds and what waits for one, and the schedule whose runs fail."""
    _hold()
    _schedule_of_failing_runs()


def _hold() -> None:
    from django_durable.client.holding import hold_queue, hold_workflow
    from django_durable.models import Audit, Hold, Run

    hold_queue(HELD, reason="The partner's endpoint is down until 06:00.", actor="ann")
    hold_workflow("market.exchange", reason="Wrong prices since the deploy at midnight.", actor="bob")
    for name, ago in ((HELD, 35 * MINUTE), ("market.exchange", 150 * MINUTE)):
        at = timezone.now() - ago
        Hold.objects.filter(name=name).update(since=at)
        Audit.objects.filter(Q(queue=name) | Q(workflow=name), verb="hold").update(at=at)
    waiting = Run.objects.filter(status="queued").order_by("pk").values_list("pk", flat=True)
    Run.objects.filter(pk__in=list(waiting[:WAITING])).update(queue=HELD, workflow=f"{HELD}.receipt")


def pass_on() -> None:
    """What is ready has only just come, but for what is held: the workers have slots free. And what came due while
    pictures are taken has fired."""
    from django_durable.models import Run, Schedule
    from django_durable.store.scheduling import plan_anew

    from .history import LATENESS

    Run.objects.filter(status="queued").exclude(queue=HELD).update(queued_at=Now())
    now = timezone.now()
    for schedule in Schedule.objects.filter(enabled=True, next_fire_at__range=(now - LATENESS, now)):
        schedule.last_scheduled_for = schedule.next_fire_at
        plan_anew(schedule, now)
        schedule.save()


def fall_silent(ago: timedelta) -> None:
    """All workers died so long ago, a multiple of ten minutes: what they said, held, ended and counted is as old."""
    from django_durable.conf import durable_settings
    from django_durable.models import Run, Tally, Worker

    died = timezone.now() - ago
    Worker.objects.exclude(stopped_at=None).update(
        heartbeat_at=F("heartbeat_at") - ago, stopped_at=F("stopped_at") - ago
    )
    Worker.objects.filter(stopped_at=None).update(heartbeat_at=died)
    lease = timedelta(seconds=durable_settings().LEASE_SECONDS)
    Run.objects.filter(status="running").update(lease_expires_at=died + lease)
    Run.objects.filter(status="queued").exclude(queue=HELD).update(queued_at=died + MINUTE)
    times = {column: F(column) - ago for column in ("created_at", "started_at", "finished_at")}
    Run.objects.exclude(finished_at=None).update(**times)
    counted = list(Tally.objects.all())
    Tally.objects.all().delete()
    for tally in counted:
        tally.minute -= ago
    Tally.objects.bulk_create(counted, batch_size=2_000)


def _schedule_of_failing_runs() -> None:
    from django_durable.models import Fire, Run, Schedule
    from django_durable.store.scheduling import FIRED, plan_anew

    [(name, _)] = work.LARGE
    runs = list(Run.objects.filter(workflow=name).order_by("-created_at"))
    last = timezone.localtime(runs[0].created_at).replace(second=0, microsecond=0)
    schedule = Schedule(
        workflow=name,
        name=IMPORT,
        app_label="shop",
        expression=f"{last.minute} {last.hour} * * *",
        timezone=timezone.get_current_timezone_name(),
        last_scheduled_for=last,
    )
    plan_anew(schedule, timezone.now())
    schedule.save()
    for number, run in enumerate(runs):
        Fire.objects.create(
            schedule=schedule,
            scheduled_for=last - number * DAY,
            fired_at=run.created_at,
            run_id=run.pk,
            outcome=FIRED,
        )

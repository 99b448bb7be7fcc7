"""A night of trouble on top of what five weeks have left: what the pictures of the admin are to show.

The payment gateway has not answered for forty minutes, an import has rows that cannot be stored, somebody has held a
queue and a workflow. How many there are does not depend on how many runs there are beside them.
"""

from __future__ import annotations

from datetime import timedelta

from . import workflows as work
from .templates import DAY, HOUR, Template, children_of, over

MINUTE = timedelta(minutes=1)
IMPORT = "parcels of the carrier, every night"


def make_night() -> list[Template]:
    """To be made before whatever waits: see ``make_templates``."""
    sent = over(work.SENDING, number=1)
    checkout = over(work.CHECKOUTS, number=1)
    named = over(work.LONG_NAMED, number=1)
    large = over(work.LARGE, number=1)
    return [
        Template(sent, 0, work.SENDING, since=DAY, exactly=1_500),
        # Each a day after the other, twelve hours ago at last.
        Template(large, 0, work.LARGE, since=60 * HOUR, until=-36 * HOUR, children=children_of(large), exactly=3),
        Template(named, 0, work.LONG_NAMED, since=38 * MINUTE, until=12 * MINUTE, exactly=2),
        Template(checkout, 0, work.CHECKOUTS, since=40 * MINUTE, until=3 * MINUTE, exactly=137),
    ]


def fall() -> None:
    """What is not in the runs: two holds, and the schedule whose runs fail."""
    from django_durable.client.holding import hold_queue, hold_workflow

    hold_queue("webhooks", reason="The partner's endpoint is down until 06:00.", actor="ann")
    hold_workflow("market.exchange", reason="Wrong prices since the deploy of 21:10.", actor="bob")
    _schedule_of_failing_runs()


def _schedule_of_failing_runs() -> None:
    from django_durable.models import Fire, Run, Schedule

    [(name, _)] = work.LARGE
    runs = list(Run.objects.filter(workflow=name).order_by("-pk"))
    last = runs[0].created_at.replace(second=0, microsecond=0)
    schedule = Schedule.objects.create(
        workflow=name,
        name=IMPORT,
        app_label="shop",
        expression=f"{last.minute} {last.hour} * * *",
        timezone="UTC",
        next_fire_at=last + DAY,
        last_scheduled_for=last,
    )
    for number, run in enumerate(runs):
        Fire.objects.create(
            schedule=schedule,
            scheduled_for=last - number * DAY,
            fired_at=run.created_at,
            run_id=run.pk,
            outcome="started",
        )

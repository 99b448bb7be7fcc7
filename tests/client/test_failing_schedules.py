"""Which schedules fail: judged by the last of their runs that tells anything, in one query."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.client.schedules import JUDGED_BY, failing, needing_somebody
from django_durable.models import Schedule
from tests.admin.world import make_run, make_schedule

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


def fired(name: str, *statuses: str, **more: object) -> Schedule:
    """One whose runs stand so, the newest first."""
    schedule, now = make_schedule(name=name, **more), timezone.now()
    for number, status in enumerate(statuses):
        run_id = make_run(status).pk if status else None
        at = now - timedelta(hours=number)
        schedule.fires.create(scheduled_for=at, fired_at=at, run_id=run_id, outcome="fired")
    return schedule


FAILING = [["failed"], ["blocked", "succeeded"], ["running", "cancelled", "failed"], ["", "", "", "", "", "", "failed"]]
FINE = [[], ["succeeded", "failed"], ["cancelled"], ["running", "succeeded", "failed"],
        [*["cancelled"] * JUDGED_BY, "failed"]]  # fmt: skip


def test_the_last_run_that_tells_anything_decides() -> None:
    wanted = {fired(f"failing {number}", *statuses) for number, statuses in enumerate(FAILING)}
    for number, statuses in enumerate(FINE):
        fired(f"fine {number}", *statuses)
    assert set(Schedule.objects.filter(failing())) == wanted


def test_one_that_fails_needs_somebody_unless_it_is_off() -> None:
    found = fired("on", "failed")
    fired("off", "failed", enabled=False)
    assert list(needing_somebody(timezone.now())) == [found]


def test_it_is_one_query_however_many_there_are() -> None:
    for number in range(3):
        fired(str(number), "failed", "succeeded")
    with CaptureQueriesContext(connection) as queries:
        assert len(needing_somebody(timezone.now())) == 3
    assert len(queries) == 1

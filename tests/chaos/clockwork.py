"""A schedule that comes due each second, beside all else: whether each instant has made one run. I15, L5."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django_durable.client import schedules
from django_durable.core.payloads.codec import encode
from django_durable.models import Fire, Run, Schedule
from django_durable.store.database import Database
from django_durable.store.scheduling import FIRED, database_now
from tests.processes import wait_until

STEP = timedelta(seconds=1)
AGAIN_SECONDS = 15.0
"""Within which it has fired once more after everything was healed: workers look for schedules each five seconds."""


class Clockwork:
    """Fires from now on, also for what came due while nobody could see to it, until it is stopped."""

    def __init__(self) -> None:
        self._schedule = Schedule(
            workflow="app.doubling",
            name="each second",
            expression="* * * * * *",
            input=encode({"number": 1}),
            overlap="allow",
            catch_up="all",
        )
        schedules.create(self._schedule)

    @property
    def fires(self) -> list[Fire]:
        return list(Fire.objects.filter(schedule=self._schedule).order_by("scheduled_for"))

    def stop(self) -> None:
        """Once it has fired for an instant from now on. Raises AssertionError where it does not."""
        now = database_now(Database())
        fires = Fire.objects.filter(schedule=self._schedule, scheduled_for__gte=now)
        wait_until(fires.exists, AGAIN_SECONDS, "the schedule to fire once more")
        schedules.disable(self._schedule)

    def wrong(self) -> Iterator[str]:
        """What is not as it should be once every run is over, in words."""
        fires = self.fires
        instants = [fire.scheduled_for for fire in fires]
        if not instants:
            yield "the schedule has never fired"
            return
        due = {instants[0] + STEP * number for number in range(round((instants[-1] - instants[0]) / STEP) + 1)}
        for instant in sorted(due.symmetric_difference(instants)):
            yield f"the schedule has {'not fired' if instant in due else 'fired out of time'} at {instant:%H:%M:%S.%f}"
        if len(set(instants)) < len(instants):
            yield f"the schedule has fired {len(instants) - len(set(instants))} times more than it has instants"
        runs = dict(Run.objects.filter(pk__in=[fire.run_id for fire in fires]).values_list("pk", "status"))
        for fire in fires:
            status = runs.get(fire.run_id) if fire.run_id else None
            if fire.outcome != FIRED or status != "succeeded":
                yield f"what the schedule fired at {fire.scheduled_for:%H:%M:%S} is {fire.outcome}, its run {status}"
        if len({fire.run_id for fire in fires}) < len(fires):
            yield "two instants of the schedule have one run"

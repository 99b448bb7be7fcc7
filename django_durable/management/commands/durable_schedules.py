"""``manage.py durable_schedules``: which schedules there are, and when they fire next."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.schedules import next_fires
from ...exceptions import InvalidSchedule
from ...models import Schedule
from ...store.database import Database
from ._shell import clear_errors, iso, positive, table, write_json

NEXT_MOST = 1_000


class Command(BaseCommand):
    help = "Lists the schedules, with their next due instants in UTC."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workflow", help="only those of this workflow")
        told = f"so many instants of each (1), at most {NEXT_MOST:,}"
        parser.add_argument("--next", type=positive, default=1, metavar="N", help=told)
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        found = Schedule.objects.using(Database().alias).order_by("workflow", "name")
        if options["workflow"] is not None:
            found = found.filter(workflow=options["workflow"])
        with clear_errors():
            rows = [_row(schedule, min(options["next"], NEXT_MOST)) for schedule in found]
        if options["json"]:
            self.stdout.write(write_json(rows))
        elif rows:
            self.stdout.write(table([{**row, "next": ", ".join(map(str, row["next"]))} for row in rows]))
        else:
            self.stdout.write("There are no schedules.")


def _row(schedule: Schedule, count: int) -> dict[str, Any]:
    return {
        "workflow": schedule.workflow,
        "name": schedule.name,
        "expression": schedule.expression,
        "timezone": schedule.timezone,
        "enabled": schedule.enabled,
        "last": iso(schedule.last_scheduled_for),
        "next": [iso(instant) for instant in _next(schedule, count)],
        "problem": schedule.problem,
    }


def _next(schedule: Schedule, count: int) -> list[Any]:
    try:
        return next_fires(schedule, count) if schedule.enabled else []
    except InvalidSchedule:  # its ``problem`` says so
        return []

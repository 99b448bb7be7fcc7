"""``manage.py durable_unschedule``: takes a schedule of the operators' away."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...client.schedules import remove
from ._schedules import add_schedule, find_schedule, still_there
from ._shell import actor, clear_errors, printable


class Command(BaseCommand):
    help = "Removes a schedule that the operators made. Runs that it has started stay and go on."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_schedule(parser)
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            schedule = find_schedule(options["workflow"], options["name"])
            if schedule.app_label:
                raise CommandError(
                    f"{printable(schedule)} belongs to the code of {schedule.app_label!r}, and the next worker would "
                    "bring it back: remove it there."
                )
            with still_there(schedule):
                remove(schedule, reason=options["reason"], actor=actor())
        self.stdout.write(f"Removed {printable(schedule)}.")

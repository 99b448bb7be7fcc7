"""``manage.py durable_fire``: starts a run of a schedule at once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.schedules import fire_now
from ._schedules import add_schedule, find_schedule, still_there
from ._shell import actor, clear_errors


class Command(BaseCommand):
    help = "Starts a run of a schedule at once, outside of its plan, and prints the run's id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_schedule(parser)
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            schedule = find_schedule(options["workflow"], options["name"])
            with still_there(schedule):
                self.stdout.write(str(fire_now(schedule, options["reason"], actor())))

"""``manage.py durable_backfill``: starts the runs of a window that is past."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...client.schedules import backfill
from ._schedules import add_schedule, find_schedule, instant, still_there
from ._shell import actor, clear_errors, plural, positive


class Command(BaseCommand):
    help = "Starts a run for each due instant of a schedule's past that has none, and prints their ids."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_schedule(parser)
        parser.add_argument("--since", type=instant, required=True, metavar="TIME", help="e.g. 2024-05-01T06:00+02:00")
        parser.add_argument("--until", type=instant, required=True, metavar="TIME", help="included, as --since is")
        parser.add_argument("--limit", type=positive, default=1_000, metavar="N", help="start at most so many (1000)")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["since"] > options["until"]:
            raise CommandError("--until is earlier than --since.")
        window = options["since"], options["until"], options["limit"]
        with clear_errors():
            schedule = find_schedule(options["workflow"], options["name"])
            with still_there(schedule):
                done = backfill(schedule, *window, reason=options["reason"], actor=actor())
        for run_id in done.run_ids:
            self.stdout.write(str(run_id))
        rest = "" if done.is_complete else " There are more: the same command goes on."
        self.stderr.write(f"{plural(len(done.run_ids), 'run')} started.{rest}")

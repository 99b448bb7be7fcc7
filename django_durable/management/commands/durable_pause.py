"""``manage.py durable_pause``: puts runs aside."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...client.handle import get_run
from ...core.states import Status
from ...exceptions import IllegalTransition
from ._shell import actor, clear_errors, plural, run_id


class Command(BaseCommand):
    help = (
        "Pauses runs until they are resumed: at once where nothing of them is running, else when the step under way is "
        "over. Their times and deadlines go on, and so do their children."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", type=run_id, metavar="ID")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        refused = 0
        with clear_errors():
            for handle in [get_run(given) for given in options["ids"]]:
                try:
                    handle.pause(options["reason"], actor=actor())
                    done = "paused" if handle.status == Status.PAUSED else "is asked to pause"
                    self.stdout.write(f"{handle.id} {done}")
                except IllegalTransition as error:
                    refused += 1
                    self.stderr.write(str(error))
        if refused:
            raise CommandError(f"{plural(refused, 'run')} could not be paused.")

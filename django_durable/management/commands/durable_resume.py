"""``manage.py durable_resume``: lets runs go on from their journals."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...client.handle import get_run
from ...exceptions import IllegalTransition
from ._shell import actor, clear_errors, plural, run_id


class Command(BaseCommand):
    help = (
        "Resumes paused, blocked, failed and cancelled runs: they go on from their journals, "
        "with the attempts of exhausted steps reset."
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
                    handle.resume(options["reason"], actor=actor())
                    self.stdout.write(f"{handle.id} resumed")
                except IllegalTransition as error:
                    refused += 1
                    self.stderr.write(str(error))
        if refused:
            raise CommandError(f"{plural(refused, 'run')} could not be resumed.")

"""``manage.py durable_rerun``: starts runs anew, as runs of their own."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.handle import get_run
from ._shell import actor, clear_errors, run_id


class Command(BaseCommand):
    help = "Starts a new run for each of these, with the same input and options, and prints its id."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", type=run_id, metavar="ID")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            for handle in [get_run(given) for given in options["ids"]]:
                self.stdout.write(str(handle.rerun(options["reason"], actor=actor()).id))

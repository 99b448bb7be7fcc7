"""``manage.py durable_fork``: starts a run with what another had done before a step."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.handle import get_run
from ._shell import actor, clear_errors, run_id


class Command(BaseCommand):
    help = (
        "Starts a new run with the input of this one and with what it has journaled before a step, and prints its id. "
        "The step is named by its path, as durable_runs shows it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=run_id, metavar="ID")
        parser.add_argument("step", metavar="STEP")
        parser.add_argument("--reason", default="", help="kept in the audit of both")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            new = get_run(options["id"]).fork(options["step"], options["reason"], actor=actor())
            self.stdout.write(str(new.id))

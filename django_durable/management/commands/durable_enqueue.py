"""``manage.py durable_enqueue``: starts a run and prints its id."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...workflows import Workflow, get_workflow
from ._shell import clear_errors, read_json


class Command(BaseCommand):
    help = "Starts a run of a workflow and prints its id."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the workflow's name, e.g. shop.fulfil_order")
        parser.add_argument("--input", default="{}", metavar="JSON", help="keyword arguments as a JSON object")
        parser.add_argument("--queue", help="another queue than the workflow's")
        parser.add_argument("--priority", type=int, help="-100 to 100, high first")
        parser.add_argument("--delay", type=float, metavar="SECONDS", help="start that much later")
        parser.add_argument("--key", help="idempotency key: the same key and input find the run that exists")
        parser.add_argument("--tag", action="append", default=[], help="may be given several times")

    def handle(self, *args: Any, **options: Any) -> None:
        given = read_json(options["input"], "--input")
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise CommandError('--input must be a JSON object of keyword arguments, e.g. {"order_id": 42}.')
        with clear_errors():
            self.stdout.write(str(self._start(get_workflow(options["name"]), given, options)))

    def _start(self, workflow: Workflow[Any, Any], given: dict[str, Any], options: dict[str, Any]) -> Any:
        try:
            start = workflow.using(
                queue=options["queue"],
                priority=options["priority"],
                run_after=options["delay"],
                idempotency_key=options["key"],
                tags=options["tag"],
            )
        except (TypeError, ValueError) as error:
            raise CommandError(str(error)) from None
        return start.enqueue(**given).id

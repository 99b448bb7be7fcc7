"""``manage.py durable_event``: sends a run an event."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.handle import get_run
from ._shell import actor, clear_errors, read_json, run_id


class Command(BaseCommand):
    help = "Sends a run an event; a run that does not wait for it yet finds it when it does."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=run_id, metavar="ID")
        parser.add_argument("name", metavar="NAME", help="the event's name")
        parser.add_argument("--payload", default="null", metavar="JSON", help="what ctx.wait_for_event returns")
        parser.add_argument("--key", help="idempotency key: the same key sends once")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        payload = read_json(options["payload"], "--payload")
        with clear_errors():
            get_run(options["id"]).send_event(
                options["name"], payload, options["key"], reason=options["reason"], actor=actor()
            )
        self.stdout.write(f"{options['id']} was sent {options['name']!r}")

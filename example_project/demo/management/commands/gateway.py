from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo.stage import gateway_url
from loopback.client import NoAnswer, post

TOLD = {
    "break": "The payment gateway answers 503 from now on: orders fail within half a minute.",
    "repair": "The payment gateway works again. Orders that have failed wait for somebody to resume them in the admin.",
}


class Command(BaseCommand):
    help = "Break the payment gateway of a shop that `manage.py serve` has started, or repair it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=list(TOLD))

    def handle(self, *args: Any, **options: Any) -> None:
        what = options["what"]
        try:
            reply = post(f"{gateway_url()}/{what}", {})
        except (FileNotFoundError, NoAnswer) as error:
            raise CommandError("No gateway is there to hear it. `make serve` starts one.") from error
        if not reply.ok:
            raise CommandError(f"The gateway answers {reply.status} {reply.body.get('error', '')}")
        self.stdout.write(TOLD[what])

from __future__ import annotations

import secrets
import signal
import sys
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo.customers import NotPlaced
from demo.processes import DiedEarly
from demo.script import NotEmpty, Plan, perform
from loopback.client import NoAnswer


class Command(BaseCommand):
    help = "Orders go through the shop while a worker is killed with SIGKILL; then everything is counted."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seed", type=int, help="of the gateway's faults; default: a random one, printed")
        parser.add_argument("--orders", type=int, help="place only so many orders of the file")
        parser.add_argument("--concurrency", type=int, default=Plan.concurrency, help="of each worker")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _leave)
        seed = secrets.randbelow(10_000) if options["seed"] is None else options["seed"]
        plan = Plan(settings.DATA_DIR, seed, options["orders"], options["concurrency"])
        try:
            status = perform(plan, sys.stdout)
        except KeyboardInterrupt:
            status = 128 + signal.SIGINT
        except (NotEmpty, NotPlaced, DiedEarly, NoAnswer) as error:
            raise CommandError(str(error)) from error
        sys.exit(status)


def _leave(number: int, frame: FrameType | None) -> None:
    # As an exception, so that the household ends its processes on the way out.
    sys.exit(128 + number)

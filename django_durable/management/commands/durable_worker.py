"""``manage.py durable_worker``: runs workflows until it is told to stop."""

from __future__ import annotations

import json
import logging
import os
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand

from ...worker.child import run_child
from ...worker.process import WorkerOptions
from ...worker.supervisor import CHILD_ENV, Supervisor, own_command


class Command(BaseCommand):
    help = "Runs durable workflows. SIGTERM or Ctrl-C drains; a second one ends at once."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--queues", type=_names, default=("default",), help="comma-separated; default: default")
        parser.add_argument("--processes", type=_positive, default=1, help="worker processes (default 1)")
        parser.add_argument("--concurrency", type=_positive, default=32, help="runs at a time in each (default 32)")
        parser.add_argument("--burst", action="store_true", help="work until nothing is due, then exit")
        parser.add_argument("--max-seconds", type=float, help="drain and exit after so many seconds")
        parser.add_argument("--max-runs", type=_positive, help="drain and exit after so many attempts in a process")
        parser.add_argument("--no-loops", action="store_true", help="no promoting, reaping, firing, pruning here")
        parser.add_argument("--health-file", type=Path, help="touched at every heartbeat")

    def handle(self, *args: Any, **options: Any) -> None:
        _log_to_stderr(options["verbosity"])
        told = os.environ.pop(CHILD_ENV, None)
        if told is not None:
            self._be_child(json.loads(told), options)
            return
        self.check(display_num_errors=True)
        Supervisor(own_command(), options["processes"]).run()

    def _be_child(self, told: dict[str, Any], options: dict[str, Any]) -> None:
        worker = WorkerOptions(
            queues=options["queues"],
            concurrency=options["concurrency"],
            burst=options["burst"],
            max_seconds=options["max_seconds"],
            max_runs=options["max_runs"],
            loops=told["loops"] and not options["no_loops"],
            isolated=told["isolated"],
            health_file=options["health_file"],
        )
        run_child(UUID(told["id"]), worker, told["orders"], told["reports"])


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ArgumentTypeError("give at least one queue")
    return names


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"must be an integer of at least 1, not {text!r}")
    return number


def _log_to_stderr(verbosity: int) -> None:
    """One line for each event, unless the project has set up logging of its own."""
    logger = logging.getLogger("django_durable")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel({0: logging.CRITICAL, 1: logging.INFO}.get(verbosity, logging.DEBUG))

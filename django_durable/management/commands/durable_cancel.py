"""``manage.py durable_cancel``: asks runs to stop."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.handle import RunHandle, get_run
from ...core.states import TERMINAL, Status
from ._shell import actor, clear_errors, run_id


class Command(BaseCommand):
    help = (
        "Cancels runs with their attached children: at once where nothing of them has started, "
        "at the next step where they are running. Runs that are over stay as they are."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", type=run_id, metavar="ID")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            # All are looked up first: a mistyped id stops the command before it has done a part.
            for handle in [get_run(given) for given in options["ids"]]:
                self.stdout.write(f"{handle.id} {self._cancel(handle, options['reason'])}")

    def _cancel(self, handle: RunHandle[Any], reason: str) -> str:
        before = handle.status
        handle.cancel(reason, actor=actor())
        if before in TERMINAL:
            return f"is over already: {before}"
        return "cancelled" if handle.status == Status.CANCELLED else "is asked to stop"

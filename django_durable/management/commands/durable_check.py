"""``manage.py durable_check``: do the invariants hold? Read-only."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...conf import durable_settings
from ...store.database import Database
from ...store.invariants import INVARIANTS, WINDOW, Violation, violations
from ._shell import clear_errors, plural, positive, printable, write_json

SWEEPS = 3


class Command(BaseCommand):
    help = "Looks for what must never be in the tables. Changes nothing; exit status 1 if there is a violation."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=positive, default=20, help="violations shown of each (default 20)")
        parser.add_argument("--batch-size", type=positive, default=WINDOW, help=f"rows in a look (default {WINDOW:,})")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        found: dict[str, list[Violation]] = {}
        # Younger than this may merely not have been swept yet.
        settled = SWEEPS * durable_settings().REAP_SECONDS + durable_settings().POLL_SECONDS
        for invariant in INVARIANTS:
            with clear_errors():
                found[invariant.id] = violations(
                    Database(), invariant, limit=options["limit"], settled=settled, window=options["batch_size"]
                )
            if not options["json"]:
                self._show(invariant.id, invariant.text, found[invariant.id])
        if options["json"]:
            self.stdout.write(_as_json(found))
        if count := sum(map(len, found.values())):
            raise CommandError(f"{plural(count, 'violation')} found.")

    def _show(self, name: str, text: str, found: list[Violation]) -> None:
        self.stdout.write(f"{'VIOLATED' if found else 'ok':8}  {name:7}  {text}")
        for violation in found:
            self.stdout.write(f"{'':10}{violation.run_id}  {printable(violation.problem)}")


def _as_json(found: dict[str, list[Violation]]) -> str:
    shown = {
        invariant.id: {
            "holds": not found[invariant.id],
            "text": invariant.text,
            "violations": [{"run": str(one.run_id), "problem": one.problem} for one in found[invariant.id]],
        }
        for invariant in INVARIANTS
    }
    return write_json({"ok": not any(found.values()), "invariants": shown})

"""``manage.py durable_prune``: deletes what is over and old."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from ...store.database import Database
from ...store.pruning import Pruned, Retention, prune, retention
from ...workflows.registry import workflows
from ._shell import clear_errors, duration, plural, positive, write_json


class Command(BaseCommand):
    help = (
        "Deletes finished runs whose retention is over, tree by tree, with all that belongs to them; expired "
        "idempotency keys; workers that have been dead for a day. Workers do the same by and by."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--older-than",
            type=duration,
            metavar="7d",
            help="instead of RETENTION_DAYS (s, m, h, d, w); a workflow's own retention option still holds",
        )
        parser.add_argument("--batch-size", type=positive, default=500, help="runs in a transaction (default 500)")
        parser.add_argument("--dry-run", action="store_true", help="count, delete nothing")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            own = {name: workflow.options.retention for name, workflow in workflows().items()}
            keep = retention(own, default=options["older_than"])
            total = self._walk(keep, options["batch_size"], options["dry_run"])
        if options["json"]:
            counts = {name: count for name, count in asdict(total).items() if name != "after"}
            self.stdout.write(write_json({"dry_run": options["dry_run"], **counts}))
        else:
            self.stdout.write(_sentence(total, options["dry_run"]))

    def _walk(self, keep: Retention, batch: int, dry_run: bool) -> Pruned:
        db, total = Database(), Pruned()
        while True:
            total.add(prune(db, batch, keep, after=total.after, dry_run=dry_run))
            if total.after is None:
                return total


def _sentence(total: Pruned, dry_run: bool) -> str:
    counts = ", ".join(
        plural(count, noun)
        for noun, count in (
            ("run", total.runs),
            ("idempotency key", total.idempotency_keys),
            ("worker", total.workers),
            ("fire", total.fires),
        )
    )
    return f"{'Would delete' if dry_run else 'Deleted'} {counts}."

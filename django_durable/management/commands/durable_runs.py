"""``manage.py durable_runs``: the newest runs, or one run with its journal."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ...client.handle import get_run
from ...client.listing import LIMIT_MOST, find_runs, view
from ...client.why import why
from ...core.journal.states import Status
from ...models import Run
from ._run_view import as_data, as_text
from ._shell import clear_errors, iso, positive, run_id, table, write_json


class Command(BaseCommand):
    help = "Lists the newest runs, or shows one with its journal and why it is not running."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", nargs="?", type=run_id, metavar="ID", help="show this run")
        parser.add_argument("--status", action="append", default=[], choices=[str(status) for status in Status])
        parser.add_argument("--workflow", default="")
        parser.add_argument("--queue", default="")
        parser.add_argument("--tag", action="append", default=[], help="several: runs that carry all of them")
        parser.add_argument("--limit", type=positive, default=20, help=f"default 20, at most {LIMIT_MOST:,}")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        with clear_errors():
            text = self._one(options) if options["id"] else self._several(options)
        self.stdout.write(text)

    def _one(self, options: dict[str, Any]) -> str:
        run = get_run(options["id"]).run
        shown, reason = view(run), why(run)
        return write_json(as_data(shown, reason)) if options["json"] else as_text(shown, reason)

    def _several(self, options: dict[str, Any]) -> str:
        runs = find_runs(
            statuses=options["status"],
            workflow=options["workflow"],
            queue=options["queue"],
            tags=options["tag"],
            limit=options["limit"],
        )
        rows = [_row(run) for run in runs]
        if options["json"]:
            return write_json(rows)
        return table(rows) if rows else "No run fits."


def _row(run: Run) -> dict[str, object]:
    return {
        "id": str(run.pk),
        "workflow": run.workflow,
        "status": run.status,
        "queue": run.queue,
        "priority": run.priority,
        "attempt": run.attempt,
        "created": iso(run.created_at),
        "finished": iso(run.finished_at),
        "waits": run.block_reason or run.waiting_on,
    }

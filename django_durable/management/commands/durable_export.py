"""``manage.py durable_export``: runs with their journals, as JSON."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, OutputWrapper

from ...client.exporting import export_end, export_runs
from ...models import Run
from ...store.database import Database
from ...store.reading import read_only
from ._shell import clear_errors, plural, printable, run_id

BATCH = 20


class Command(BaseCommand):
    help = "Writes runs as JSON: input, journal, events, log, tags, and how their children stand. Read-only."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", type=run_id, metavar="ID")
        parser.add_argument("--lines", action="store_true", help="a run on each line, and how many on the last")
        parser.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        ids = list(dict.fromkeys(options["ids"]))
        with clear_errors():
            known = set(Run.objects.using(Database().alias).filter(pk__in=ids).values_list("pk", flat=True))
            if missing := [one for one in ids if one not in known]:
                raise CommandError(f"There is no run {missing[0]}.")
            write = _write_lines if options["lines"] else _write
            if options["output"] is None:
                write(_documents(ids), self.stdout)
                return
            try:
                with options["output"].open("w", encoding="ascii") as file:
                    write(_documents(ids), OutputWrapper(file))
            except OSError as error:
                raise CommandError(printable(error)) from error
        self.stdout.write(f"Wrote {plural(len(ids), 'run')} to {printable(options['output'])}.")


def _documents(ids: list[UUID]) -> Iterator[dict[str, Any]]:
    db = Database()
    for start in range(0, len(ids), BATCH):
        with read_only(db):
            yield from list(export_runs(ids[start : start + BATCH]))


def _write(documents: Iterator[dict[str, Any]], out: OutputWrapper) -> None:
    """A list of documents, of which only a few are in memory at a time."""
    out.write("[")
    for number, document in enumerate(documents):
        out.write((", " if number else "") + json.dumps(document, indent=1))
    out.write("]")


def _write_lines(documents: Iterator[dict[str, Any]], out: OutputWrapper) -> None:
    """As the admin's file: of a list its end says that nothing is missing, of lines the last one has to."""
    count = 0
    for document in documents:
        out.write(json.dumps(document))
        count += 1
    out.write(json.dumps(export_end(count)))

"""``manage.py durable_replay``: would live runs go on with this code? For before a deploy, and for CI."""

from __future__ import annotations

import json
import random
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from ...client.exporting import END, export_journals, live_runs
from ...client.recorded import ExportUnreadable, Recorded, read
from ...executor.replaying import Divergence, replay
from ...models import Run
from ...store.database import Database
from ...store.reading import read_only, undone, without_effect
from ...workflows.registry import workflows
from ._shell import clear_errors, plural, positive, printable, run_id

BATCH = 50

Verdict = tuple[str, Divergence | None]
"""The workflow of a run, and in what it would diverge."""


class Command(BaseCommand):
    help = (
        "Replays the journals of live runs against the code on disk, and says which runs would not go on as they "
        "began. No step is run and nothing is written; exit status 1 if there is one."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="*", type=run_id, metavar="ID", help="these runs instead of all live ones")
        parser.add_argument("--workflow", default="", metavar="NAME", help="only runs of this workflow")
        parser.add_argument("--sample", type=positive, metavar="N", help="at most N runs of each workflow, by chance")
        parser.add_argument(
            "--file", action="append", default=[], type=Path, metavar="F", help="runs that durable_export has written"
        )
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        if sum(bool(options[source]) for source in ("ids", "file", "sample")) > 1:
            raise CommandError("Name runs, or --file, or --sample: only one of them.")
        count = Count()
        with clear_errors():
            verdicts = count.over(_verdicts(options))
            if options["json"]:
                self._write_json(verdicts, count)
            else:
                self._write_lines(verdicts, count)
        if count.divergent:
            raise CommandError(f"{plural(count.divergent, 'run')} would diverge.")

    def _write_lines(self, divergences: Iterator[Divergence], count: Count) -> None:
        for one in divergences:
            where = printable(one.path) or "-"
            self.stdout.write(f"{one.run_id}  {one.workflow}  {where}  {one.reason}: {printable(one.text)}")
        self.stdout.write(
            f"Replayed {plural(count.runs, 'run')} of {plural(len(count.workflows), 'workflow')}: "
            f"{count.divergent:,} would diverge."
        )

    def _write_json(self, divergences: Iterator[Divergence], count: Count) -> None:
        """One document, of which no more than one run is in memory at a time."""
        self.stdout.write('{"divergences": [')
        for number, one in enumerate(divergences):
            self.stdout.write((", " if number else "") + json.dumps(_as_data(one)))
        facts = {"runs": count.runs, "workflows": len(count.workflows), "ok": not count.divergent}
        self.stdout.write("], " + json.dumps(facts)[1:])


def _as_data(one: Divergence) -> dict[str, str]:
    return {
        "run": str(one.run_id),
        "workflow": one.workflow,
        "path": one.path,
        "reason": str(one.reason),
        "text": one.text,
    }


@dataclass(slots=True)
class Count:
    """What was replayed so far."""

    runs: int = 0
    divergent: int = 0
    workflows: set[str] = field(default_factory=set)

    def over(self, verdicts: Iterable[Verdict]) -> Iterator[Divergence]:
        """The divergences, one after the other, counted as they pass."""
        for workflow, divergence in verdicts:
            self.runs += 1
            self.workflows.add(workflow)
            if divergence is not None:
                self.divergent += 1
                yield divergence


def _verdicts(options: dict[str, Any]) -> Iterator[Verdict]:
    names = _names(options["workflow"])
    if options["file"]:
        for path in options["file"]:
            for recorded in _read_file(path):
                if not names or recorded.workflow in names:
                    yield _filed(recorded)
        return
    chosen = iter(_named(options["ids"]) if options["ids"] else _live(names, options["sample"]))
    while batch := list(islice(chosen, BATCH)):
        yield from _stored(batch)


def _names(workflow: str) -> list[str]:
    """Under which names runs of ``workflow`` are stored."""
    known = workflows().get(workflow)
    names = [] if known is None else [known.name, *known.aliases]
    return names or [workflow] if workflow else []


def _live(names: Sequence[str], sample: int | None) -> Iterable[UUID]:
    runs = live_runs(names)
    return (pk for pk, _ in runs) if sample is None else _sample(runs, sample)


def _sample(runs: Iterable[tuple[UUID, str]], size: int) -> list[UUID]:
    """At most ``size`` runs of each workflow, each of them as likely as any other."""
    drawn: dict[str, list[UUID]] = defaultdict(list)
    passed: dict[str, int] = defaultdict(int)
    for pk, workflow in runs:
        passed[workflow] += 1
        place = random.randrange(passed[workflow])  # noqa: S311  (a sample, no secret)
        if len(drawn[workflow]) < size:
            drawn[workflow].append(pk)
        elif place < size:
            drawn[workflow][place] = pk
    return [pk for some in drawn.values() for pk in some]


def _named(ids: Sequence[UUID]) -> list[UUID]:
    known = set(Run.objects.using(Database().alias).filter(pk__in=ids).values_list("pk", flat=True))
    if missing := [one for one in ids if one not in known]:
        raise CommandError(f"There is no run {missing[0]}.")
    return list(dict.fromkeys(ids))


def _stored(ids: Sequence[UUID]) -> Iterator[Verdict]:
    """The database refuses what the workflows' functions might write, and forgets what it refused."""
    db = Database()
    verdicts = []
    with read_only(db):
        for document in export_journals(ids):
            recorded = read(document)
            with undone(db):
                verdicts.append((recorded.workflow, replay(recorded, workflows())))
    return iter(verdicts)


def _filed(recorded: Recorded) -> Verdict:
    """The functions may know a database, also where the run is none of its rows."""
    with without_effect(Database()):
        return recorded.workflow, replay(recorded, workflows())


def _read_file(path: Path) -> Iterator[Recorded]:
    try:
        for document in _documents(path.read_bytes()):
            yield read(document)
    except OSError as error:
        raise CommandError(printable(error)) from error
    except (ExportUnreadable, ValueError, RecursionError) as error:
        raise CommandError(f"{printable(path)} cannot be read: {printable(error)}.") from error


def _documents(text: bytes) -> list[Any]:
    """Of a list; or of lines, of which the last one has to be that of the end."""
    try:
        documents = json.loads(text)
    except json.JSONDecodeError:
        *documents, end = [json.loads(line) for line in text.splitlines()] or [None]
        if not isinstance(end, dict) or end.get("format") != END:
            raise ExportUnreadable("it was cut off: its last line is not that of the end") from None
    return documents if isinstance(documents, list) else [documents]

"""``manage.py durable_doctor``: is this installation well? Settings, checks, database, Redis, queues, workers."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ._doctor.database import examine_database
from ._doctor.redis import examine_redis
from ._doctor.runs import examine_runs
from ._doctor.section import Section
from ._doctor.settings import examine_checks, examine_settings
from ._shell import plural, printable, table, write_json

EXAMINATIONS: dict[str, Callable[[Section], None]] = {
    "settings": examine_settings,
    "checks": examine_checks,
    "database": examine_database,
    "redis": examine_redis,
    "runs": examine_runs,
}


class Command(BaseCommand):
    help = "Examines settings, database, Redis, queues and workers. Exit status 1 if something is wrong."
    # What they say is a part of the report, and must not keep it from being written.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        sections = [_examine(title, look) for title, look in EXAMINATIONS.items()]
        problems = [problem for section in sections for problem in section.problems]
        if options["json"]:
            self.stdout.write(write_json(_as_data(sections)))
        else:
            self.stdout.write("\n".join(line for section in sections for line in _lines(section)))
        if problems:
            raise CommandError(f"{plural(len(problems), 'problem')} found.")
        if not options["json"]:
            self.stdout.write("All is well.")


def _examine(title: str, look: Callable[[Section], None]) -> Section:
    section = Section(title)
    try:
        look(section)
    except Exception as error:
        # What is broken here must not hide what else is.
        section.problems.append(f"{title} could not be examined: {type(error).__name__}: {error}".strip())
    return section


def _as_data(sections: list[Section]) -> dict[str, Any]:
    return {
        "ok": not any(section.problems for section in sections),
        "problems": [problem for section in sections for problem in section.problems],
        "notes": [note for section in sections for note in section.notes],
        **{section.title: section.facts for section in sections},
    }


def _lines(section: Section) -> Iterator[str]:
    yield section.title
    for name, value in section.facts.items() if section.title != "checks" else ():
        if not isinstance(value, list | dict):
            yield f"  {name:22} {printable(value)}"
    for name, value in section.facts.items():
        if rows := _rows(name, value):
            yield "  " + table(rows).replace("\n", "\n  ")
    for problem in section.problems:
        yield f"  PROBLEM  {printable(problem)}"
    for note in section.notes:
        yield f"  note     {printable(note)}"
    yield ""


def _rows(name: str, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [{name: key, **(cells if isinstance(cells, dict) else {"count": cells})} for key, cells in value.items()]
    return []

"""What the commands on schedules share: which one is meant, and times from a shell."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.core.management.base import CommandError

from ...models import Schedule
from ...store.database import Database
from ._shell import printable


def add_schedule(parser: ArgumentParser) -> None:
    parser.add_argument("workflow", metavar="WORKFLOW", help="the workflow's name, e.g. reports.close_day")
    parser.add_argument("name", metavar="NAME", nargs="?", help="the schedule's name, if the workflow has several")


def find_schedule(workflow: str, name: str | None) -> Schedule:
    """The one that is meant. Raises CommandError, which names those that there are."""
    found = list(Schedule.objects.using(Database().alias).filter(workflow=workflow).order_by("name"))
    chosen = found if name is None else [schedule for schedule in found if schedule.name == name]
    if len(chosen) == 1:
        return chosen[0]
    if not found:
        raise CommandError(f"{printable(workflow)} has no schedule.")
    names = ", ".join(repr(schedule.name) for schedule in found)
    problem = "has several schedules" if name is None else f"has no schedule called {name!r}"
    raise CommandError(f"{printable(workflow)} {problem}: it has {names}.")


@contextmanager
def still_there(schedule: Schedule) -> Iterator[None]:
    """Something is done to it, unless somebody has removed it since it was found."""
    try:
        yield
    except Schedule.DoesNotExist:
        raise CommandError(f"{printable(schedule)} is gone already.") from None


def instant(text: str) -> datetime:
    """An aware datetime from ISO 8601."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time: write 2024-05-01T06:00Z or 2024-05-01T06:00+02:00") from None
    if found.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} could be anywhere: add Z for UTC, or an offset such as +02:00")
    return found

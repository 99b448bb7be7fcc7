"""Every address of ours as the site's resolver knows it, and what a test asks there: rows, forms, and their answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.urls import get_resolver, reverse
from django.utils import timezone

from django_durable.models import Hold, Payload, Run, Schedule, Tally, Worker
from tests.admin.world import make_entry, make_full_run, make_run, make_schedule, make_worker
from tests.app.workflows import doubling

PREFIX = "django_durable_"
QUERIES = {"workflows_start": "?workflow=app.doubling", "run_value": "?of=input"}
"""What an address has to be asked with."""
WINDOW = {"since": "2024-01-01T00:00", "until": "2024-01-01T23:00", "limit": "5"}
COUNTED = "2024-01-01T00:00:00+00:00 2024-01-01T23:00:00+00:00 5 1"
NEW = {"name": "new", "expression": "0 7 * * *", "timezone": "UTC", "overlap": "skip", "catch_up": "all", "jitter": "0",
       "input": '{"number": 4}'}  # fmt: skip


def addresses() -> dict[str, str]:
    """The route of each by its name, without what all of the names begin with; one that Django keeps for bookmarks has
    none, and is called by its model."""
    return dict(_walk(get_resolver("tests.urls").url_patterns, ""))


def _walk(patterns: Any, before: str) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _walk(pattern.url_patterns, route)
        elif "django_durable" in route:
            yield pattern.name.removeprefix(PREFIX) if pattern.name else f"{route.split('/')[2]}_old", route


@dataclass(frozen=True)
class Rows:
    """``run`` is over and failed, ``live`` waits, ``idle`` is a schedule that is off."""

    run: Run
    live: Run
    schedule: Schedule
    idle: Schedule
    worker: Worker

    def url(self, name: str) -> str:
        """Where the address of that name is for the row that it can do something with."""
        if name == "app_list":
            return reverse("admin:app_list", args=["django_durable"])
        model, _, verb = name.partition("_")
        row = {
            **{f"run_{each}": self.live for each in ("cancel", "pause", "event")},
            "schedule_enable": self.idle,
        }.get(name, getattr(self, model, None))
        if verb == "old":
            return reverse(f"admin:{PREFIX}{model}_changelist") + f"{row.pk}/"
        arguments = [row.pk] if row and "<" in addresses()[name] else []
        return reverse(f"admin:{PREFIX}{name}", args=arguments) + QUERIES.get(name, "")


def make_rows() -> Rows:
    """Of each kind one to which everything can be done, and a queue ``vip`` that is held."""
    run = doubling.enqueue(number=4).run
    Run.objects.filter(pk=run.pk).update(
        status="failed", claims=1, started_at=timezone.now(), finished_at=timezone.now(), queued_at=None
    )
    make_entry(run, "double", status="failed", value=None, error='{"type":"E","message":"m","traceback":"t"}')
    Hold.objects.create(kind=Hold.QUEUE, name="vip")
    return Rows(
        run=Run.objects.get(pk=run.pk),
        live=make_run("waiting"),
        schedule=make_schedule(input='{"number": 4}'),
        idle=make_schedule(name="idle", enabled=False),
        worker=make_worker(),
    )


def make_rows_of(text: str) -> Rows:
    """Likewise, with as much as there can be in them, all of it ``text``."""
    name, now = text[:200], timezone.now()
    run = make_full_run(text, "blocked")
    live = make_run("waiting", workflow=name, waiting_on=f"event:{name}")
    make_entry(live, name, kind="event", status="waiting", awaits=name, finished_at=None)
    worker = Worker.objects.get()
    held = make_run("running", workflow=name, leased_by=worker.pk)
    Payload.objects.create(run=held, kind="progress", data='{"done": 1, "total": 3, "message": "m"}')
    for kind in (Hold.QUEUE, Hold.WORKFLOW):
        Hold.objects.create(kind=kind, name=name, actor=text[:150], reason=text)
    counts = {"minute": now.replace(second=0, microsecond=0), "workflow": name, "queue": text[:100]}
    Tally.objects.create(kind=Tally.RUNS, started=9, succeeded=6, failed=2, **counts)
    Tally.objects.create(kind=Tally.STEP, name=name, failed=2, **counts)
    idle = make_schedule(workflow=name, name=name[:190] + " idle", enabled=False)
    return Rows(run=run, live=live, schedule=Schedule.objects.exclude(pk=idle.pk).get(), idle=idle, worker=worker)


def question(name: str) -> dict[str, str]:
    """What the button sends that asks for it."""
    return {
        "workflows_hold": {"kind": "queue", "name": "orders"},
        "workflows_release": {"kind": "queue", "name": "vip"},
    }.get(name, {})


def answer(name: str) -> dict[str, str]:
    """What the form sends that does it."""
    more = {
        "workflows_start": {"input:number": "4", "key": str(uuid4())},
        "run_event": {"name": "packed", "payload": "", "key": str(uuid4())},
        "run_fork": {"from_step": "double"},
        "schedule_backfill": {**WINDOW, "counted": COUNTED},
        "schedule_edit": NEW,
        "schedule_add": {**NEW, "workflow": "app.doubling"},
    }
    return {"confirmed": "1", "reason": "why", **question(name), **more.get(name, {})}

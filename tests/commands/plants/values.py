"""Plants: values that are too large or nobody can read, names that are too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection

from django_durable.models import Event, JournalEntry, Payload, Run, Tag
from tests.commands.checking import (
    a_schedule,
    an_entry,
    sound,
)
from tests.commands.plants.planting import MAX_BYTES, Plant, Planted
from tests.commands.rows import execute

LARGE = f'"{"x" * MAX_BYTES}"'


def large_payload(kind: str) -> Plant:
    def plant() -> Planted:
        run = sound()
        Payload.objects.filter(run_id=run.pk, kind=kind).update(data=LARGE)
        return run.pk, f"its {kind} takes 1002 bytes"

    return plant


def large_result() -> Planted:
    run = sound()
    an_entry(run, path="long", seq=2, value=f"[{LARGE},{LARGE}]")
    return run.pk, "the value of long takes 2007 bytes"


def large_event() -> Planted:
    run = sound()
    Event.objects.create(run_id=run.pk, name="large", payload=LARGE)
    return run.pk, "the payload of an event takes 1002 bytes"


def large_response() -> Planted:
    run = sound()
    Event.objects.filter(run_id=run.pk).update(response=LARGE, answered_at=run.created_at)
    return run.pk, "the response to an event takes 1002 bytes"


def large_scheduled_input() -> Planted:
    schedule = a_schedule(input=LARGE)
    return None, f"the input of schedule {schedule.pk} takes 1002 bytes"


def too_long(told: str, model: Any, column: str, put: Callable[[Run, str], object]) -> Plant:
    """By one character. SQLite stores it, PostgreSQL once its column is one of any length."""

    def plant() -> Planted:
        run, most = sound(), model._meta.get_field(column).max_length
        if connection.vendor == "postgresql":
            execute(f"ALTER TABLE {model._meta.db_table} ALTER COLUMN {column} TYPE text")
        put(run, "n" * most)
        put(other := sound(), "n" * (most + 1))
        return other.pk, f"{told} of {most + 1} characters"

    return plant


def of_run(column: str) -> Callable[[Run, str], object]:
    return lambda run, name: Run.objects.filter(pk=run.pk).update(**{column: name})


LONG: list[Plant] = [
    too_long("a workflow", Run, "workflow", of_run("workflow")),
    too_long("a queue", Run, "queue", of_run("queue")),
    too_long("a path in its parent", Run, "parent_path", of_run("parent_path")),
    too_long("a path", JournalEntry, "path", lambda run, name: an_entry(run, path=name, seq=2)),
    too_long("a tag", Tag, "name", lambda run, name: Tag.objects.create(run_id=run.pk, name=name)),
    too_long(
        "an event",
        Event,
        "name",
        lambda run, name: Event.objects.filter(run_id=run.pk).update(name=name),
    ),
]


def unreadable(told: str, table: Any, column: str, text: str = "{", **which: Any) -> Plant:
    def plant() -> Planted:
        run = sound()
        table.objects.filter(run_id=run.pk, **which).update(**{column: text})
        event = Event.objects.get(run_id=run.pk).pk
        return run.pk, f"its {told.format(event=event)} cannot be read: "

    return plant


def unreadable_scheduled_input(text: str, **columns: Any) -> Plant:
    def plant() -> Planted:
        a_schedule(input='{"number":42}')
        schedule = a_schedule(input=text, **columns)
        # Neither: no input at all, and one whose problem says that it cannot be read.
        a_schedule()
        a_schedule(input="{", problem="PayloadUndecodable: it is no JSON")
        return None, f"the input of schedule {schedule.pk} cannot be read: "

    return plant


UNREADABLE: list[Plant] = [
    unreadable("input", Payload, "data", kind="input"),
    unreadable("output", Payload, "data", '{"$":"nobody knows","v":1}', kind="output"),
    unreadable("value at double", JournalEntry, "value"),
    unreadable("error at double", JournalEntry, "error"),
    unreadable("payload of event {event}", Event, "payload"),
    unreadable("response of event {event}", Event, "response"),
    unreadable_scheduled_input("{"),
    unreadable_scheduled_input('{"$":"nobody knows","v":1}', enabled=False),
]


PLANTS: dict[str, list[Plant]] = {
    "I20": [
        large_payload("input"),
        large_payload("output"),
        large_result,
        large_event,
        large_response,
        large_scheduled_input,
        *LONG,
    ],
    "I20b": UNREADABLE,
}

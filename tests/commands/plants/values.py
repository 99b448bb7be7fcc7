"""Plants: values that are too large or nobody can read, names that are too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.utils import timezone

from django_durable.models import Event, Hold, IdempotencyKey, JournalEntry, LogLine, Payload, Run, Schedule, Tag
from django_durable.store.sql.invariants.sizes import ERROR, PLACE
from tests.commands.checking import (
    HOUR,
    a_run,
    a_schedule,
    an_entry,
    claimed,
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


def large_text(size: int) -> str:
    return f'"{"x" * (size - 2)}"'


def large_error() -> Planted:
    """By one byte. A compensation that failed has an error too, which the run's own tells of."""

    def with_error(size: int) -> Run:
        run = a_run(status="failed", age=HOUR, **claimed(2))
        an_entry(run)
        Payload.objects.create(run_id=run.pk, kind="error", data=large_text(size))
        return run

    most = ERROR + PLACE
    with_error(most)
    undone = with_error(2 * ERROR + 2 * PLACE)
    an_entry(undone, path="double%undo", seq=2, kind="undo", status="failed", value=None)
    return with_error(most + 1).pk, f"its error takes {most + 1} bytes"


def large_error_of_an_attempt() -> Planted:
    run = a_run(status="queued", **claimed(1))
    Payload.objects.create(run_id=run.pk, kind="retry", data=large_text(ERROR + 1))
    return run.pk, f"its retry takes {ERROR + 1} bytes"


def large_error_of_a_step() -> Planted:
    def of_size(run: Run, size: int) -> None:
        an_entry(run, path="long", seq=2, status="failed", value=None, error=large_text(size))

    most = ERROR + 2 * PLACE
    of_size(sound(), most)
    of_size(run := sound(), most + 1)
    return run.pk, f"the error of long takes {most + 1} bytes"


def large_scheduled_input() -> Planted:
    schedule = a_schedule(input=LARGE)
    return None, f"the input of schedule {schedule.pk} takes 1002 bytes"


def longest(model: Any, column: str) -> int:
    """How many characters the column takes. PostgreSQL takes more from now on, as SQLite does."""
    if connection.vendor == "postgresql":
        execute(f"ALTER TABLE {model._meta.db_table} ALTER COLUMN {column} TYPE text")
    most: int = model._meta.get_field(column).max_length
    return most


def too_long(told: str, model: Any, column: str, put: Callable[[Run, str], object]) -> Plant:
    """By one character."""

    def plant() -> Planted:
        run, most = sound(), longest(model, column)
        put(run, "n" * most)
        put(other := sound(), "n" * (most + 1))
        return other.pk, f"{told} of {most + 1} characters"

    return plant


def too_long_of(noun: str, column: str, make: Callable[..., Any]) -> Plant:
    """As ``too_long``, of what belongs to no run."""

    def plant() -> Planted:
        most = longest(Hold if noun == "hold" else Schedule, column)
        make(**{column: "n" * most})
        made = make(**{column: "n" * (most + 1)})
        return None, f"the {column} of {noun} {made.pk} has {most + 1} characters"

    return plant


def of_run(column: str) -> Callable[[Run, str], object]:
    return lambda run, name: Run.objects.filter(pk=run.pk).update(**{column: name})


def of_event(column: str) -> Callable[[Run, str], object]:
    return lambda run, name: Event.objects.filter(run_id=run.pk).update(**{column: name})


def under_key(run: Run, name: str) -> object:
    key = {"key": name, "key_hash": str(len(name)), "input_hash": "", "expires_at": timezone.now() + HOUR}
    return IdempotencyKey.objects.create(workflow=run.workflow, run_id=run.pk, **key)


LONG: list[Plant] = [
    too_long_of("schedule", "workflow", a_schedule),
    too_long_of("schedule", "name", a_schedule),
    too_long_of("schedule", "expression", a_schedule),
    too_long_of("hold", "name", lambda name: Hold.objects.create(kind="queue", name=name)),
    too_long("a workflow", Run, "workflow", of_run("workflow")),
    too_long("a queue", Run, "queue", of_run("queue")),
    too_long("a path in its parent", Run, "parent_path", of_run("parent_path")),
    too_long("a path", JournalEntry, "path", lambda run, name: an_entry(run, path=name, seq=2)),
    too_long("a tag", Tag, "name", lambda run, name: Tag.objects.create(run_id=run.pk, name=name)),
    too_long("a limit", Run, "limit_key", of_run("limit_key")),
    too_long("a wait", Run, "waiting_on", of_run("waiting_on")),
    too_long("the key of an event", Event, "idempotency_key", of_event("idempotency_key")),
    too_long("the path that took an event", Event, "consumed_by", of_event("consumed_by")),
    too_long("an idempotency key", IdempotencyKey, "key", under_key),
    too_long(
        "the scope of a line of the log",
        LogLine,
        "scope",
        lambda run, name: LogLine.objects.filter(run_id=run.pk).update(scope=name),
    ),
    too_long("an event", Event, "name", of_event("name")),
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
        large_error,
        large_error_of_an_attempt,
        large_error_of_a_step,
        large_scheduled_input,
        *LONG,
    ],
    "I20b": UNREADABLE,
}

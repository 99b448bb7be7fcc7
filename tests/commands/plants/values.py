"""Plants: values that are too large, or that nobody can read."""

from __future__ import annotations

from typing import Any

from django_durable.models import Event, JournalEntry, Payload
from tests.commands.checking import (
    a_schedule,
    an_entry,
    sound,
)
from tests.commands.plants.planting import MAX_BYTES, Plant, Planted

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
    ],
    "I20b": UNREADABLE,
}

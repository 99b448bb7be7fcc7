"""Plants: children, waits, and what belongs to nobody."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.utils import timezone

from django_durable.models import Audit, ClaimRecord, Event, JournalEntry, LogLine, Payload, Run, Tag
from tests.commands.checking import (
    HOUR,
    RUN,
    a_run,
    an_entry,
    claimed,
    sound,
    with_belongings,
)
from tests.commands.plants.planting import Plant, Planted
from tests.commands.rows import execute


def child_without_parent() -> Planted:
    child = a_run(status="queued", parent=sound())
    execute(f"UPDATE {RUN} SET parent_id = %s WHERE id = %s", uuid4(), child.pk)
    return child.pk, "queued, and its parent does not exist"


def parent_was_cancelled() -> Planted:
    child = a_run(status="queued", parent=a_run(age=HOUR, status="cancelled", **claimed(1)))
    return child.pk, "queued, although its parent was cancelled"


def waits_for_nothing() -> Planted:
    return a_run(age=HOUR, status="waiting").pk, "waiting for nothing that could wake it"


def waits_for_a_child_that_is_not() -> Planted:
    return a_waiter("child").pk, "waiting for nothing that could wake it"


def a_waiter(kind: str, **columns: Any) -> Run:
    run = a_run(age=HOUR, status="waiting", **{"waiting_on": f"{kind}:wait", **columns})
    an_entry(run, path="wait", kind=kind, status="waiting", value=None, awaits="packed" if kind == "event" else "")
    return run


def waits_for_what_it_does_not_say() -> Planted:
    run = a_run(age=HOUR, status="waiting", wake_at=timezone.now() + HOUR)
    an_entry(run, status="abandoned")
    return run.pk, "waiting, and its journal does not say what for"


def waits_for_a_map_of_none() -> Planted:
    run = a_waiter("map")
    # Not an item of that map, though it looks like one.
    a_run(age=HOUR, status="waiting", parent=run, parent_path="waiting[0]", waiting_on="retry:", wake_at=timezone.now())
    return run.pk, "waiting for nothing that could wake it"


def map_is_over() -> Planted:
    run = a_waiter("map", wake_at=timezone.now() + HOUR)
    for index in range(3):
        with_belongings(a_run(age=HOUR, parent=run, parent_path=f"wait[{index}]"))
    return run.pk, "waiting although enough children of its map are over"


def event_has_come() -> Planted:
    run = a_waiter("event", wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    return run.pk, "waiting although its event has come"


def child_is_over() -> Planted:
    run = a_waiter("child")
    with_belongings(a_run(age=HOUR, parent=run, parent_path="wait"))
    return run.pk, "waiting although its child is over"


def cancel_was_asked() -> Planted:
    then = timezone.now() - HOUR
    run = a_run(age=HOUR, status="waiting", wake_at=timezone.now() + HOUR, cancel_requested_at=then)
    an_entry(run, kind="sleep", status="waiting", value=None)
    return run.pk, "waiting although it is to be cancelled"


def ownerless(table: str) -> Plant:
    def plant() -> Planted:
        run = sound()
        keep = set(TABLES.values()) - {TABLES[table]}
        for model in keep:
            model.objects.filter(run_id=run.pk).delete()
        execute(f"DELETE FROM {RUN} WHERE id = %s", run.pk)
        return run.pk, f"rows in django_durable_{table}, and no such run"

    return plant


TABLES: dict[str, Any] = {
    "journalentry": JournalEntry,
    "payload": Payload,
    "event": Event,
    "tag": Tag,
    "audit": Audit,
    "claimrecord": ClaimRecord,
    "logline": LogLine,
}


PLANTS: dict[str, list[Plant]] = {
    "I18": [child_without_parent],
    "I18b": [parent_was_cancelled],
    "I22": [
        waits_for_nothing,
        waits_for_a_child_that_is_not,
        waits_for_what_it_does_not_say,
        waits_for_a_map_of_none,
        map_is_over,
        event_has_come,
        child_is_over,
        cancel_was_asked,
    ],
    "orphans": [ownerless(table) for table in TABLES],
}

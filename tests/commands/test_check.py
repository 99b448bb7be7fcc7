"""Each invariant with a violation planted, past the constraints where one forbids it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable.models import Audit, ClaimRecord, Event, IdempotencyKey, JournalEntry, LogLine, Payload, Run, Tag
from django_durable.store.invariants import INVARIANTS
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling, failing, listening, parent, sleepy
from tests.commands.conftest import Call, allow_anything
from tests.commands.rows import a_run, an_entry, execute, with_belongings
from tests.processes import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
HOUR = timedelta(hours=1)
RUN, JOURNAL, KEY = "django_durable_run", "django_durable_journalentry", "django_durable_idempotencykey"
Plant = Callable[[], tuple[UUID, str]]


def sound() -> Run:
    return with_belongings(a_run(age=HOUR))


def change(run: Run, assignment: str, *constraints: str) -> UUID:
    """Change the run's row against its CHECKs."""
    allow_anything(RUN, *constraints)
    execute(f"UPDATE {RUN} SET {assignment} WHERE id = %s", run.pk)
    return run.pk


LEASE = {"lease_token": "id", "leased_by": "id", "lease_expires_at": "queued_at"}
"""What makes a lease, and columns to take a value for it from."""


def running_with(*columns: str) -> Plant:
    def plant() -> tuple[UUID, str]:
        lease = "".join(f", {column} = {LEASE[column]}" for column in columns)
        changed = change(a_run(status="queued"), f"status = 'running'{lease}", "durable_run_lease")
        return changed, "running without a whole lease"

    return plant


def queued_with(*columns: str) -> Plant:
    def plant() -> tuple[UUID, str]:
        lease = ", ".join(f"{column} = {LEASE[column]}" for column in columns)
        return change(a_run(status="queued"), lease, "durable_run_lease"), "queued with a lease"

    return plant


def over_without_end() -> tuple[UUID, str]:
    return change(sound(), "finished_at = NULL", "durable_run_finished"), "succeeded without finished_at"


def end_without_over() -> tuple[UUID, str]:
    run = a_run(status="queued")
    return change(run, "finished_at = created_at", "durable_run_finished"), "queued with finished_at"


def outcome(status: str, problem: str, *kinds: str) -> Plant:
    def plant() -> tuple[UUID, str]:
        run = a_run(status=status)
        for kind in kinds:
            Payload.objects.create(run_id=run.pk, kind=kind, data="1")
        return run.pk, problem

    return plant


def same_number() -> tuple[UUID, str]:
    run = sound()
    an_entry(run, path="other", seq=1)
    return run.pk, "journal number 1 stands 2 times"


def number_zero() -> tuple[UUID, str]:
    run = sound()
    an_entry(run, path="other", seq=0)
    return run.pk, "journal number 0 is not above zero"


def same_path() -> tuple[UUID, str]:
    run = sound()
    columns = "run_id, path, kind, status, attempts, started_at, awaits, token"
    allow_anything(JOURNAL, "django_durable_journalentry_pkey")
    execute(f"INSERT INTO {JOURNAL} ({columns}, seq) SELECT {columns}, 2 FROM {JOURNAL} WHERE run_id = %s", run.pk)
    return run.pk, "2 journal entries at double"


def a_key(run_id: UUID, **columns: Any) -> IdempotencyKey:
    values = {"workflow": "app.doubling", "key": "k", "key_hash": "h", "input_hash": "i", "run_id": run_id}
    return IdempotencyKey.objects.create(**{**values, "expires_at": timezone.now() + HOUR, **columns})


def two_runs_for_a_key() -> tuple[UUID, str]:
    first, second = sound(), sound()
    a_key(first.pk)
    allow_anything(KEY, "durable_idempotency_once")
    columns = "workflow, key, key_hash, input_hash, expires_at"
    execute(f"INSERT INTO {KEY} (id, run_id, {columns}) SELECT id + 1, %s, {columns} FROM {KEY}", second.pk)
    return second.pk, "a second run for one idempotency key of app.doubling"


def key_of_another_workflow() -> tuple[UUID, str]:
    run = sound()
    a_key(run.pk, workflow="app.sleepy")
    return run.pk, "not a run of app.sleepy, whose idempotency key names it"


def key_without_run() -> tuple[UUID, str]:
    gone = uuid4()
    a_key(gone)
    return gone, "no run, but an idempotency key of app.doubling names it"


def child_without_parent() -> tuple[UUID, str]:
    child = a_run(status="queued", parent=sound())
    execute(f"UPDATE {RUN} SET parent_id = %s WHERE id = %s", uuid4(), child.pk)
    return child.pk, "queued, and its parent does not exist"


def waits_for_nothing() -> tuple[UUID, str]:
    return a_run(age=HOUR, status="waiting").pk, "waiting for nothing that could wake it"


def waits_for_a_child_that_is_not() -> tuple[UUID, str]:
    return a_waiter("child").pk, "waiting for nothing that could wake it"


def a_waiter(kind: str, **columns: Any) -> Run:
    run = a_run(age=HOUR, status="waiting", **{"waiting_on": f"{kind}:wait", **columns})
    an_entry(run, path="wait", kind=kind, status="waiting", awaits="packed" if kind == "event" else "")
    return run


def waits_for_what_it_does_not_say() -> tuple[UUID, str]:
    run = a_run(age=HOUR, status="waiting", wake_at=timezone.now() + HOUR)
    an_entry(run, status="abandoned")
    return run.pk, "waiting, and its journal does not say what for"


def waits_for_a_map_of_none() -> tuple[UUID, str]:
    run = a_waiter("map")
    # Not an item of that map, though it looks like one.
    a_run(
        age=HOUR, status="waiting", parent=run, parent_path="waiting[0]", waiting_on="retry:run", wake_at=timezone.now()
    )
    return run.pk, "waiting for nothing that could wake it"


def map_is_over() -> tuple[UUID, str]:
    run = a_waiter("map", wake_at=timezone.now() + HOUR)
    for index in range(3):
        with_belongings(a_run(age=HOUR, parent=run, parent_path=f"wait[{index}]"))
    return run.pk, "waiting although enough children of its map are over"


def parent_was_cancelled() -> tuple[UUID, str]:
    child = a_run(status="queued", parent=a_run(age=HOUR, status="cancelled"))
    return child.pk, "queued, although its parent was cancelled"


def event_has_come() -> tuple[UUID, str]:
    run = a_waiter("event", wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    return run.pk, "waiting although its event has come"


def child_is_over() -> tuple[UUID, str]:
    run = a_waiter("child")
    with_belongings(a_run(age=HOUR, parent=run, parent_path="wait"))
    return run.pk, "waiting although its child is over"


def cancel_was_asked() -> tuple[UUID, str]:
    then = timezone.now() - HOUR
    run = a_run(age=HOUR, status="waiting", wake_at=timezone.now() + HOUR, cancel_requested_at=then)
    return run.pk, "waiting although it is to be cancelled"


def ownerless(table: str) -> Plant:
    def plant() -> tuple[UUID, str]:
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
PLANTS: list[tuple[str, Plant]] = [
    ("I1", running_with()),
    *[("I1", running_with(*[column for column in LEASE if column != missing])) for missing in LEASE],
    *[("I1", queued_with(column)) for column in LEASE],
    ("I1", queued_with(*LEASE)),
    ("I2", over_without_end),
    ("I2", end_without_over),
    ("I2", outcome("succeeded", "succeeded without an output")),
    ("I2", outcome("succeeded", "succeeded with an error", "output", "error")),
    ("I2", outcome("failed", "failed without an error")),
    ("I2", outcome("failed", "failed with an output", "output", "error")),
    ("I6", same_number),
    ("I6", number_zero),
    ("I8", same_path),
    ("I13", two_runs_for_a_key),
    ("I13", key_of_another_workflow),
    ("I13", key_without_run),
    ("I18", child_without_parent),
    ("I22", waits_for_nothing),
    ("I22", waits_for_a_child_that_is_not),
    ("I18b", parent_was_cancelled),
    ("I22", waits_for_what_it_does_not_say),
    ("I22", waits_for_a_map_of_none),
    ("I22", map_is_over),
    ("I22", event_has_come),
    ("I22", child_is_over),
    ("I22", cancel_was_asked),
    *(("orphans", ownerless(table)) for table in TABLES),
]


def test_there_is_a_plant_for_every_invariant() -> None:
    assert {name for name, _ in PLANTS} == {invariant.id for invariant in INVARIANTS}


@pytest.mark.parametrize(("name", "plant"), PLANTS)
def test_a_planted_violation_is_found(call: Call, name: str, plant: Plant) -> None:
    sound()
    run_id, problem = plant()
    sound()
    for batch in (1, 1_000):
        called = call("durable_check", "--json", "--batch-size", batch)
        broken = {key: found["violations"] for key, found in called.data["invariants"].items() if not found["holds"]}
        assert broken == {name: [{"run": str(run_id), "problem": problem}]}
        assert (called.failed, called.data["ok"]) == ("1 violation found.", False)
    assert f"VIOLATED  {name}" in (text := call("durable_check").out)
    assert f"{run_id}  {problem}" in text


def test_what_the_engine_makes_violates_nothing(call: Call) -> None:
    for number in range(3):
        doubling.using(idempotency_key=f"k{number}").enqueue(number)
    sleepy.enqueue(3600)
    listening.enqueue()
    failing.enqueue()
    parent.enqueue(4)
    doubling.using(run_after=3600).enqueue(1)
    cancelled, late = sleepy.enqueue(3600), sleepy.using(timeout=0.01).enqueue(3600)
    run_until_idle()
    cancelled.cancel()
    deadline = late.refresh().run.deadline_at
    assert deadline is not None
    wait_until(lambda: timezone.now() > deadline)
    run_until_idle()
    assert (cancelled.refresh().status, late.refresh().status) == ("cancelled", "failed")
    doubling.enqueue(5)
    called = call("durable_check", "--batch-size", 2)
    assert called.failed is None, called.out
    assert [line.split()[:2] for line in called.out.splitlines()] == [["ok", one.id] for one in INVARIANTS]


def test_what_is_young_may_not_have_been_swept_yet(call: Call) -> None:
    run = a_waiter("event", wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=run.pk, name="packed", payload="1")
    parent_run = a_waiter("child")
    a_run(status="cancelled", parent=parent_run, parent_path="wait")
    assert call("durable_check").failed is None


def test_what_a_run_no_longer_waits_at_is_nothing_to_it(call: Call) -> None:
    """Changed code sleeps where it once waited for an event, and for a child that was over long ago."""
    event, child = an_abandoned("event"), an_abandoned("child")
    for run in (event, child):
        an_entry(run, path="nap", seq=2, kind="sleep", status="waiting")
        Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=event.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    with_belongings(a_run(age=HOUR, parent=child, parent_path="wait"))
    assert call("durable_check").failed is None


def an_abandoned(kind: str) -> Run:
    run = a_waiter(kind, waiting_on="sleep:nap")
    JournalEntry.objects.filter(run_id=run.pk).update(status="abandoned")
    return run


def test_an_event_that_it_no_longer_waits_for_cannot_wake_it(call: Call) -> None:
    run = an_abandoned("event")
    [found] = call("durable_check", "--json").data["invariants"]["I22"]["violations"]
    assert found == {"run": str(run.pk), "problem": "waiting for nothing that could wake it"}


def test_one_of_several_waits_is_enough_to_wake_a_run_and_to_have_woken_it(call: Call) -> None:
    """A join at a map that goes on, at an event, and at a retry."""
    run = a_waiter("map", waiting_on="join:all")
    an_entry(run, path="retry", seq=2, status="retrying")
    an_entry(run, path="event", seq=3, kind="event", status="waiting", awaits="packed")
    with_belongings(a_run(age=HOUR, parent=run, parent_path="wait[0]"))
    a_run(status="queued", parent=run, parent_path="wait[1]")
    assert call("durable_check").failed is None
    Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    [found] = call("durable_check", "--json").data["invariants"]["I22"]["violations"]
    assert found == {"run": str(run.pk), "problem": "waiting although its event has come"}


def test_a_run_that_waits_for_its_next_attempt_needs_no_entry(call: Call) -> None:
    a_run(age=HOUR, status="waiting", waiting_on="retry:run", wake_at=timezone.now() + HOUR)
    assert call("durable_check").failed is None


def test_a_run_that_is_over_may_keep_the_wait_at_which_that_found_it(call: Call) -> None:
    """Resumed it goes on there."""
    run = a_run(age=HOUR, status="cancelled")
    an_entry(run, kind="event", status="waiting", awaits="packed")
    assert call("durable_check").failed is None


@pytest.mark.parametrize("what", ["detached", "asked", "resumed", "young"])
def test_a_child_that_may_outlive_its_cancelled_parent(call: Call, what: str) -> None:
    parent_run = a_run(age=HOUR, status="cancelled", finished=timedelta(0) if what == "young" else None)
    columns = {"detached": {"detached": True}, "asked": {"cancel_requested_at": timezone.now()}}.get(what, {})
    child = a_run(status="queued", parent=parent_run, **columns)
    if what == "resumed":
        Audit.objects.create(run_id=child.pk, verb="resume", status_before="cancelled")
    assert call("durable_check").failed is None


def test_expired_keys_bind_nobody(call: Call) -> None:
    a_key(sound().pk, workflow="app.sleepy", expires_at=timezone.now() - HOUR)
    assert call("durable_check").failed is None


def test_it_shows_as_many_as_it_is_asked_to(call: Call) -> None:
    for _ in range(5):
        a_run(status="succeeded")
    data = call("durable_check", "--json", "--limit", 3, "--batch-size", 2).data
    assert len(data["invariants"]["I2"]["violations"]) == 3


def test_it_only_reads(call: Call) -> None:
    sound()
    with CaptureQueriesContext(connection) as queries:
        call("durable_check")
    assert all(query["sql"].lstrip().startswith("SELECT") for query in queries)

"""What retention deletes, and what it never does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from django_durable.models import Fire, IdempotencyKey, Run, Schedule, Worker
from django_durable.store import pruning, transitions
from django_durable.store.auditing import Verb
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.pruning import Pruned, Retention, prune, retention
from django_durable.testing import run_until_idle, travel
from tests.app.workflows import doubling
from tests.commands.rows import a_process, a_run, everything_of, with_belongings

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
DAYS = timedelta(days=1)
KEEP = Retention(30 * 86_400.0, {})


def walk(
    limit: int = 500, keep: Retention = KEEP, db: Database | None = None, steps: list[Pruned] | None = None
) -> Pruned:
    total = Pruned()
    for _ in range(1_000):
        step = prune(db or Database(), limit, keep, after=total.after)
        if steps is not None:
            steps.append(step)
        total.add(step)
        if total.after is None:
            return total
    raise AssertionError("the walk does not end")


def left() -> set[Any]:
    return set(Run.objects.values_list("pk", flat=True))


def test_what_is_over_and_old_goes_with_all_that_belongs_to_it() -> None:
    old, young = with_belongings(a_run(age=31 * DAYS)), with_belongings(a_run(age=29 * DAYS))
    assert walk().runs == 1
    assert left() == {young.pk}
    assert (everything_of(old), everything_of(young)) == (0, 8)


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_every_ending_counts(status: str) -> None:
    a_run(age=31 * DAYS, status=status)
    assert walk().runs == 1


@pytest.mark.parametrize("status", ["scheduled", "queued", "waiting", "paused", "blocked"])
def test_what_is_not_over_is_never_old(status: str) -> None:
    a_run(age=900 * DAYS, status=status)
    assert walk().runs == 0


def test_age_counts_from_the_end() -> None:
    a_run(age=400 * DAYS, finished=29 * DAYS)
    assert walk().runs == 0


def test_a_workflow_has_its_own_retention() -> None:
    keep = retention({"app.short": timedelta(days=1), "app.long": 90 * 86_400, "app.none": None})
    gone = a_run(age=2 * DAYS, workflow="app.short")
    kept = a_run(age=31 * DAYS, workflow="app.long")
    young = a_run(age=2 * DAYS, workflow="app.none")
    assert walk(keep=keep).runs == 1
    assert left() == {kept.pk, young.pk}
    assert gone.pk not in left()


# --- trees -------------------------------------------------------------------------------------


def test_a_tree_goes_as_a_whole() -> None:
    root = a_run(age=40 * DAYS)
    child = with_belongings(a_run(age=39 * DAYS, parent=root))
    a_run(age=38 * DAYS, parent=child)
    assert walk().runs == 3
    assert everything_of(child) == 0


@pytest.mark.parametrize("status", ["waiting", "succeeded"])
def test_a_live_or_young_descendant_keeps_the_tree(status: str) -> None:
    root = a_run(age=40 * DAYS)
    child = a_run(age=39 * DAYS, parent=root)
    a_run(age=38 * DAYS, parent=child, status=status, finished=3 * DAYS)
    assert walk().runs == 0
    assert len(left()) == 3


def test_a_live_root_keeps_its_children() -> None:
    a_run(age=39 * DAYS, parent=a_run(age=40 * DAYS, status="waiting"))
    assert walk().runs == 0


def test_a_detached_child_counts_for_itself() -> None:
    root = a_run(age=40 * DAYS)
    live = a_run(age=39 * DAYS, parent=root, detached=True, status="waiting")
    a_run(age=38 * DAYS, parent=live, detached=True)
    assert walk().runs == 2
    assert left() == {live.pk}


def test_children_follow_the_retention_of_their_root() -> None:
    keep = retention({"app.root": 86_400.0})
    root = a_run(age=3 * DAYS, workflow="app.root")
    a_run(age=3 * DAYS, parent=root)
    assert walk(keep=keep).runs == 2


def test_a_child_whose_parent_is_gone_begins_a_tree() -> None:
    child = a_run(age=40 * DAYS, parent=a_run(age=41 * DAYS))
    Run.objects.filter(pk=child.parent_id).delete()
    assert walk().runs == 1


# --- idempotency keys --------------------------------------------------------------------------


def key_of(run: Run, expires: timedelta) -> IdempotencyKey:
    made: IdempotencyKey = IdempotencyKey.objects.create(
        workflow=run.workflow,
        key=str(run.pk),
        key_hash=str(run.pk),
        run_id=run.pk,
        input_hash="h",
        expires_at=timezone.now() + expires,
    )
    return made


def test_a_run_stays_as_long_as_its_key_stands() -> None:
    """Else who uses the key again within the time that was promised would start it twice, or find nothing."""
    kept, gone = with_belongings(a_run(age=40 * DAYS)), a_run(age=40 * DAYS)
    child = a_run(age=39 * DAYS, parent=kept)
    key_of(kept, timedelta(minutes=1))
    key_of(gone, -timedelta(minutes=1))
    assert walk().runs == 1
    assert left() == {kept.pk, child.pk}
    IdempotencyKey.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert walk().runs == 2


def test_an_enqueue_finds_its_run_although_retention_is_shorter_than_its_key() -> None:
    keep = Retention(DAYS.total_seconds(), {})
    start = doubling.using(idempotency_key="order-42", idempotency_ttl=7 * DAYS).enqueue
    with travel() as clock:
        run = start(21)
        run_until_idle()
        clock.advance(days=6)
        assert walk(keep=keep).runs == 0
        again = start(21)
        assert (again, again.result(timeout=0)) == (run, 42)
        clock.advance(days=2)
        assert walk(keep=keep).runs == 1
        assert start(21) != run


# --- bounds ------------------------------------------------------------------------------------


def test_no_step_deletes_more_than_the_limit() -> None:
    for _ in range(7):
        a_run(age=31 * DAYS)
    steps: list[Pruned] = []
    assert walk(limit=3, steps=steps).runs == 7
    assert max(step.runs for step in steps) == 3


def test_a_tree_larger_than_the_limit_goes_leaves_first() -> None:
    root = a_run(age=40 * DAYS)
    child = a_run(age=39 * DAYS, parent=root)
    leaves = {a_run(age=38 * DAYS, parent=child).pk for _ in range(5)}
    other = a_run(age=37 * DAYS)
    first = prune(Database(), 3, KEEP)
    assert (first.runs, len(left() & leaves)) == (3, 2)
    assert {root.pk, child.pk, other.pk} <= left()
    steps: list[Pruned] = []
    assert walk(limit=3, steps=steps).runs == 5
    assert max(step.runs for step in steps) <= 3


def test_what_must_stay_does_not_keep_the_walk_from_what_may_go() -> None:
    for _ in range(45):
        a_run(age=50 * DAYS, status="waiting")
    gone = a_run(age=40 * DAYS)
    steps: list[Pruned] = []
    # A window of 20: a step looks at no more, however old what it finds.
    assert walk(limit=1, steps=steps).runs == 1
    assert gone.pk not in left()
    assert len(steps) >= 3


def test_a_step_asks_a_fixed_number_of_statements() -> None:
    from django.test.utils import CaptureQueriesContext

    counts = set()
    for number in (1, 30):
        for _ in range(number):
            with_belongings(a_run(age=31 * DAYS))
        with CaptureQueriesContext(connection) as queries:
            assert prune(Database(), 100, KEEP).runs == number
        counts.add(len(queries))
    assert len(counts) == 1


def test_a_run_that_is_resumed_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_run(age=32 * DAYS, status="failed")
    child, gone = with_belongings(a_run(age=32 * DAYS, parent=root)), a_run(age=31 * DAYS)
    find_trees = pruning._find_trees

    def resume_after(*arguments: Any) -> Any:
        found = find_trees(*arguments)
        transitions.resume(Database(), [root.pk], Verb())
        return found

    monkeypatch.setattr(pruning, "_find_trees", resume_after)
    assert walk().runs == 1
    assert left() == {root.pk, child.pk}
    assert gone.pk not in left()
    assert everything_of(child) == 8


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_is_left_for_the_next_walk() -> None:
    held, free = with_belongings(a_run(age=32 * DAYS)), a_run(age=31 * DAYS)
    if connection.vendor == "sqlite":
        # One writer: nobody can hold a row while we write. The walk as the loops do it, on their connection.
        db = PrivateDatabase()
        assert walk(db=db).runs == 2
        db.close()
        return
    holder, db = PrivateDatabase(), PrivateDatabase()
    try:
        with holder.transaction():
            holder.rows("SELECT id FROM django_durable_run WHERE id = %(id)s FOR UPDATE", id=str(held.pk))
            assert walk(db=db).runs == 1
            assert walk(db=db, limit=1).runs == 0
        assert (left(), everything_of(held)) == ({held.pk}, 8)
        assert free.pk not in left()
        assert walk(db=db).runs == 1
    finally:
        holder.close()
        db.close()


# --- what is no run ----------------------------------------------------------------------------


def test_keys_go_by_their_own_expiry() -> None:
    def key(name: str, expires: timedelta) -> None:
        IdempotencyKey.objects.create(
            workflow="w", key=name, key_hash=name, run_id=uuid4(), input_hash="h", expires_at=timezone.now() + expires
        )

    key("gone", -timedelta(seconds=1))
    key("kept", timedelta(seconds=60))
    assert walk().idempotency_keys == 1
    assert list(IdempotencyKey.objects.values_list("key", flat=True)) == ["kept"]


def test_workers_that_have_been_dead_for_a_day() -> None:
    a_process(25 * timedelta(hours=1))
    a_process(2 * DAYS, stopped=25 * timedelta(hours=1))
    alive, stopped = a_process(timedelta(0)), a_process(2 * DAYS, stopped=timedelta(hours=1))
    holder = a_process(2 * DAYS)
    a_run(status="running", lease_token=uuid4(), leased_by=holder.pk, lease_expires_at=timezone.now())
    assert walk().workers == 2
    assert set(Worker.objects.all()) == {alive, stopped, holder}


def test_fires_of_runs_that_are_gone() -> None:
    schedule = Schedule.objects.create(workflow="w", name="s", expression="@daily")

    def fire(age: timedelta, run_id: Any) -> Fire:
        at = timezone.now() - age
        return Fire.objects.create(schedule=schedule, scheduled_for=at, fired_at=at, run_id=run_id, outcome="started")

    fire(31 * DAYS, uuid4())
    kept = {fire(32 * DAYS, a_run(status="waiting").pk), fire(29 * DAYS, uuid4())}
    assert walk().fires == 1
    assert set(Fire.objects.all()) == kept

"""Rows that an open transaction holds: who acts on runs waits for them a while, and is told which they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.db.utils import OperationalError

from django_durable import cancel_runs, get_run, resume_runs
from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import PayloadKind, Status
from django_durable.exceptions import RunLocked
from django_durable.models import Audit, Event, Payload, Run
from django_durable.queues.database import DatabaseQueue
from django_durable.queues.ready import Ready
from django_durable.store import locking, recovery
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.fitting import block_unknown
from django_durable.worker.loops.unwanted import Unwanted
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer, row_locked, session, wait_until_blocked
from tests.store.rows import (
    LEASE,
    PAST,
    WORKFLOW,
    at,
    child_entry,
    event_entry,
    journal_row,
    make_run,
    row_of,
    running,
    send,
    status_of,
)
from tests.store.suspending import child_of, suspend
from tests.store.test_waiting_maps import map_entry

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)


def lock_timeout() -> str:
    return str(Database().rows("SHOW lock_timeout")[0][0])


@pytest.fixture
def limited_to() -> Iterator[Callable[[str], None]]:
    """Sets what the project's own sessions begin with."""

    def limit(value: str) -> None:
        connection.settings_dict["OPTIONS"]["options"] = f"-c lock_timeout={value}"
        connection.close()

    before = connection.settings_dict["OPTIONS"].get("options")
    yield limit
    connection.settings_dict["OPTIONS"].pop("options")
    if before is not None:
        connection.settings_dict["OPTIONS"]["options"] = before
    connection.close()


def waiting() -> Run:
    run = make_run(Status.WAITING, waiting_on="event:packed", wake_at=None)
    journal_row(run, event_entry())
    return run


# --- cancel and resume -----------------------------------------------------------------------

VERBS: dict[str, tuple[Callable[[list[UUID]], int], Status, Status]] = {
    "cancel": (cancel_runs, Status.SCHEDULED, Status.CANCELLED),
    "resume": (resume_runs, Status.PAUSED, Status.QUEUED),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_names_the_run_that_somebody_holds_and_changes_none(db: PrivateDatabase, name: str):
    verb, status, _ = VERBS[name]
    runs = [make_run(status) for _ in range(3)]
    before = [row_of(run) for run in runs]
    with row_locked(db, runs[1].pk), pytest.raises(RunLocked, match=f"Run {runs[1].pk} is held by") as caught:
        verb([run.pk for run in runs])
    assert (caught.value.run_ids, caught.value.seconds) == ([runs[1].pk], 0.1)
    assert [row_of(run) for run in runs] == before
    assert not Audit.objects.exists()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_waits_for_who_is_done_soon(db: PrivateDatabase, connect: Connect, threads: Threads, name: str):
    verb, status, after = VERBS[name]
    run = make_run(status)
    with row_locked(db, run.pk):
        future = threads.start(verb, [run.pk])
        wait_until_blocked(connect(), session(db))
    assert answer(future) == 1
    assert status_of(run) == after


@pytest.mark.usefixtures("soon")
def test_a_descendant_that_somebody_holds_is_named(db: PrivateDatabase):
    parent = make_run(Status.WAITING)
    child = make_run(Status.WAITING, parent_id=parent.pk)
    with row_locked(db, child.pk), pytest.raises(RunLocked) as caught:
        cancel_runs([parent.pk])
    assert caught.value.run_ids == [child.pk]
    assert (status_of(parent), row_of(parent)["cancel_requested_at"]) == (Status.WAITING, None)


@pytest.mark.usefixtures("soon")
def test_all_that_are_held_are_named(db: PrivateDatabase, connect: Connect):
    runs = [make_run() for _ in range(3)]
    with row_locked(db, runs[0].pk), row_locked(connect(), runs[2].pk), pytest.raises(RunLocked) as caught:
        cancel_runs([run.pk for run in runs])
    assert caught.value.run_ids == [runs[0].pk, runs[2].pk]
    assert "(and 1 more)" in str(caught.value)


@pytest.mark.usefixtures("soon")
def test_while_its_siblings_live_a_child_is_cancelled_whoever_holds_the_parent(
    db: PrivateDatabase, caplog: pytest.LogCaptureFixture
):
    """Else ten thousand children would stand in line for the row of one parent. Who had waited for it would say so."""
    claim = running(db)
    children = [child_of(claim, f"each[{index}]") for index in range(3)]
    suspend(db, claim, map_entry(), outcome=Suspended("map:each"), children=children)
    with row_locked(db, claim.run_id):
        assert cancel_runs([children[0].id]) == 1
    assert (status_of(children[0].id), status_of(claim.run_id)) == (Status.CANCELLED, Status.WAITING)
    assert caplog.messages == []


def test_the_last_child_that_is_cancelled_wakes_the_parent(db: PrivateDatabase):
    claim = running(db)
    children = [child_of(claim, f"each[{index}]") for index in range(2)]
    suspend(db, claim, map_entry(), outcome=Suspended("map:each"), children=children)
    for child, status in zip(children, [Status.WAITING, Status.QUEUED], strict=True):
        cancel_runs([child.id])
        assert status_of(claim.run_id) == status


# --- in the caller's transaction -------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_the_caller_s_transaction_outlives_the_refusal_and_waits_as_before(db: PrivateDatabase):
    held, free = make_run(), make_run()
    with transaction.atomic():
        Database().rows("SET LOCAL lock_timeout = '7s'")
        other = make_run()
        with row_locked(db, held.pk):
            with pytest.raises(RunLocked):
                cancel_runs([free.pk, held.pk])
            # Nor does it keep the rows that it had, or that it looked for.
            db.rows("SELECT 1 FROM django_durable_run WHERE id = %(id)s FOR UPDATE NOWAIT", id=str(free.pk))
        assert lock_timeout() == "7s"
    assert (status_of(other), status_of(free)) == (Status.QUEUED, Status.QUEUED)


def test_a_verb_that_succeeds_leaves_the_caller_s_waits_as_they_were():
    with transaction.atomic():
        for value in ("7s", "0", "1500ms"):
            Database().rows(f"SET LOCAL lock_timeout = '{value}'")
            cancel_runs([make_run().pk])
            assert lock_timeout() == value


def test_nothing_of_it_stays_in_the_session(db: PrivateDatabase):
    """Behind PgBouncer it is somebody else's next."""
    run = waiting()
    for act in (lambda: cancel_runs([make_run().pk]), lambda: recovery.wake(Database(), run.pk)):
        act()
        assert lock_timeout() == "0"
    recovery.wake(db, run.pk)
    assert db.rows("SHOW lock_timeout") == [("0",)]


@pytest.mark.parametrize(("own", "expected"), [("50ms", "50ms"), ("1min", "2s"), ("0", "2s")])
def test_a_shorter_limit_of_the_project_s_own_stays(
    limited_to: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, own: str, expected: str
):
    limited_to(own)
    seen: list[str] = []
    locked = locking.locked
    monkeypatch.setattr("django_durable.store.transitions.locked", lambda *a: seen.append(lock_timeout()) or locked(*a))
    cancel_runs([make_run().pk])
    assert set(seen) == {expected}


@pytest.mark.usefixtures("soon")
def test_another_refusal_of_the_database_is_told_as_it_is(db: PrivateDatabase):
    run = make_run()
    with transaction.atomic():
        Database().rows("SET LOCAL statement_timeout = '50ms'")
        with (
            row_locked(db, run.pk),
            pytest.MonkeyPatch.context() as patch,
            pytest.raises(OperationalError, match="statement timeout"),
        ):
            patch.setattr(locking, "LOCK_SECONDS", 10.0)
            cancel_runs([run.pk])


# --- wakes and events ------------------------------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_a_wake_names_the_run_that_somebody_holds(db: PrivateDatabase, connect: Connect):
    run = waiting()
    send(run.pk)
    with row_locked(db, run.pk):
        for waker in (connect(), Database()):
            with pytest.raises(RunLocked) as caught:
                recovery.wake(waker, run.pk)
            assert caught.value.run_ids == [run.pk]
    assert [ready.id for ready in recovery.wake(Database(), run.pk)] == [run.pk]


@pytest.mark.usefixtures("soon")
def test_an_event_is_sent_whoever_holds_the_run(db: PrivateDatabase, caplog: pytest.LogCaptureFixture):
    """It needs nothing of the run's row: only its wake does, which follows the commit and may be left to the sweep."""
    run = waiting()
    with row_locked(db, run.pk):
        with transaction.atomic():
            get_run(run.pk).send_event("packed", 1, idempotency_key="k")
            get_run(run.pk).send_event("packed", 2, actor="ann")
            assert caplog.text == ""
        assert Event.objects.filter(run_id=run.pk).count() == 2
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
        assert f"left to wake run {run.pk}" in caplog.text
    assert status_of(run) == Status.WAITING
    assert [ready.id for ready in recovery.sweep(Database(), 10)] == [run.pk]


@pytest.mark.usefixtures("patient")
def test_an_event_waits_for_who_sends_its_key_at_the_same_time(
    db: PrivateDatabase, connect: Connect, threads: Threads, monkeypatch: pytest.MonkeyPatch
):
    run, d = waiting(), db.dialect
    insert = (
        "INSERT INTO django_durable_event (run_id, name, payload, idempotency_key, consumed_by)"
        " VALUES (%(id)s, 'packed', '1', 'k', '')"
    )

    def send_second() -> Any:
        return get_run(run.pk).send_event("packed", 2, idempotency_key="k")

    with db.transaction():
        db.rows(insert, id=d.key(run.pk))
        with monkeypatch.context() as patch:
            patch.setattr(locking, "LOCK_SECONDS", 0.1)
            with pytest.raises(RunLocked, match=str(run.pk)):
                send_second()
        second = threads.start(send_second)
        wait_until_blocked(connect(), session(db))
    answer(second)
    assert list(Event.objects.values_list("payload", flat=True)) == ["1"]


# --- children that nobody wants any more -----------------------------------------------------


@pytest.mark.usefixtures("soon")
def test_a_sweep_leaves_an_unwanted_child_that_somebody_holds_for_its_next_round(db: PrivateDatabase, connect: Connect):
    parents = [make_run(Status.SUCCEEDED) for _ in range(2)]
    left = [make_run(Status.WAITING, parent_id=parent.pk, parent_path="any/slow/one") for parent in parents]
    for parent in parents:
        Payload.objects.create(run_id=parent.pk, kind=PayloadKind.UNWANTED, data="any/slow/one")
    sweep = Unwanted(db, DatabaseQueue())
    with row_locked(connect(), left[0].pk):
        assert sweep.tick() == 1
        assert [status_of(child) for child in left] == [Status.WAITING, Status.QUEUED]
    assert sweep.tick() == 1
    assert status_of(left[0]) == Status.QUEUED
    assert sweep.tick() == 0


# --- the parents of runs that end ------------------------------------------------------------


def parent_and_child(**child: Any) -> tuple[Run, Run]:
    """A run that waits for its child, and the child, which was asked to stop."""
    parent = make_run(Status.WAITING, waiting_on="child:child", wake_at=None, priority=5)
    journal_row(parent, child_entry())
    asked = {"parent_id": parent.pk, "parent_path": "child", "cancel_requested_at": at(PAST)}
    return parent, make_run(**{**asked, **child})


def test_a_parent_that_somebody_holds_keeps_the_reaper_not_waiting(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    parent, child = parent_and_child(status=Status.RUNNING, lease_expires_at=at(PAST), suspect=True, crashes=2)
    reap = partial(recovery.reap, db, 10, lease=LEASE, max_crashes=3)
    with row_locked(connect(), parent.pk):
        assert recovery.startable(answer(threads.start(reap))) == []
    assert (status_of(child), status_of(parent)) == (Status.CANCELLED, Status.WAITING)
    assert recovery.sweep(db, 10) == [Ready(parent.pk, "default", 5)]


def test_a_parent_that_somebody_holds_keeps_nobody_waiting_who_fits(db: PrivateDatabase, threads: Threads):
    (held, _), (free, _) = (parent_and_child(workflow="gone.away") for _ in range(2))
    with row_locked(db, held.pk):
        ended = answer(threads.start(lambda: block_unknown(Database(), [WORKFLOW], 10)))
        assert (len(ended.runs), ended.woken) == (2, [Ready(free.pk, "default", 5)])

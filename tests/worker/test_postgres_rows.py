"""Rows that somebody else holds, or that a process holds which has frozen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Suspended
from django_durable.models import JournalEntry, Run
from django_durable.queues.database import DatabaseQueue
from django_durable.store import locking, recovery
from django_durable.store.committing import write_batch
from django_durable.store.database import PrivateDatabase
from django_durable.worker import batch_writer
from django_durable.worker.committer import Committer
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.loops.sweep import Sweep
from django_durable.worker.notifier import Notifier
from django_durable.worker.slots import Slots
from tests.processes import PATIENCE, wait_until
from tests.schedules.making import NIGHTLY, fire_loop, make_schedule, move_to, next_of, outcomes
from tests.store.parallel import Hooked, row_locked
from tests.store.rows import (
    LEASE,
    child_entry,
    entries,
    event_entry,
    fresh,
    journal_row,
    make_run,
    running,
    send,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)

Connect = Callable[[], PrivateDatabase]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def lease(db: PrivateDatabase) -> Lease:
    return running(db).lease


def paths(lease: Lease) -> list[str]:
    return list(JournalEntry.objects.filter(run_id=lease.run_id).values_list("path", flat=True))


def test_a_write_whose_row_is_held_waits_for_a_later_batch(
    pool: ThreadPoolExecutor, lease: Lease, db: PrivateDatabase, connect: Connect
) -> None:
    committer, other = Committer(connect(), lambda *_: None), running(db).lease
    with row_locked(connect(), lease.run_id):
        waiting = pool.submit(committer.write, lease, Write(entries(step_entry())))
        assert committer.write(other, Write(entries(step_entry()))).is_held
        assert not waiting.done()
        assert (paths(lease), paths(other)) == ([], ["step"])
    assert waiting.result(PATIENCE).is_held
    assert paths(lease) == ["step"]
    committer.close()


def test_a_row_that_is_held_for_long_does_not_slow_down_the_commits_of_other_runs(
    pool: ThreadPoolExecutor, lease: Lease, db: PrivateDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Almost all of their batches are without it: they neither wait for it nor ask whose it is."""
    batches: list[set[UUID]] = []

    def noting(db: PrivateDatabase, writes: Sequence[tuple[Lease, Write]], **options: Any) -> Any:
        batches.append({lease.run_id for lease, _ in writes})
        return write_batch(db, writes, **options)

    monkeypatch.setattr(batch_writer, "write_batch", noting)
    committer, other = Committer(connect(), lambda *_: None), running(db).lease
    with row_locked(connect(), lease.run_id):
        began = clock.monotonic()
        waiting = pool.submit(committer.write, lease, Write(entries(step_entry())))
        wait_until(lambda: batches, message="the first try")
        for turn in range(200):
            assert committer.write(other, Write(entries(step_entry(f"{turn}")))).is_held
        tries = sum(lease.run_id in batch for batch in batches)
        assert not waiting.done()
        # Of each 50 milliseconds one batch, and a few more in the beginning.
        assert tries <= 6 + (clock.monotonic() - began) / 0.05
    freed = clock.monotonic()
    assert waiting.result(PATIENCE).is_held
    # Nor until the lease is over.
    assert clock.monotonic() - freed < LEASE / 2
    assert paths(lease) == ["step"]
    committer.close()


def test_a_lease_whose_row_is_held_is_renewed_later(
    db: PrivateDatabase, connect: Connect, travel: Callable[[float], None]
) -> None:
    slots, claim = Slots(1), running(db)
    slots.take(claim)
    lease, ends = claim.lease, claim.lease.ends
    heartbeat = Heartbeat(db, slots, lambda db: None)
    travel(10)
    with row_locked(connect(), lease.run_id):
        heartbeat.beat()
        assert (lease.is_lost, lease.ends) == (False, ends)
    heartbeat.beat()
    assert lease.ends > ends


def test_a_run_whose_commits_hold_its_row_at_each_beat_keeps_its_lease(
    db: PrivateDatabase, connect: Connect, travel: Callable[[float], None]
) -> None:
    """A commit of several statements, to a database that is far away, holds its rows for most of the time."""
    slots, claim, slow = Slots(1), running(db), Hooked()
    slots.take(claim)
    lease, heartbeat = claim.lease, Heartbeat(connect(), slots, lambda db: None)
    committer = Committer(slow, lambda *_: None)
    for turn in range(8):
        travel(LEASE / 3)
        # Behind the fence, as the statement for notes does.
        slow.before["kind = 'notes'"] = heartbeat.beat
        assert committer.write(lease, Write(notes={"turn": f"{turn}"})).is_held
        assert not slow.before
        assert not lease.ends_within(LEASE / 4)
        assert fresh(lease.run_id).lease_expires_at > clock.utcnow() + timedelta(seconds=LEASE / 4)
    committer.close()
    slow.close()


def test_the_sweep_does_not_wait_for_a_row_that_is_held(db: PrivateDatabase, connect: Connect) -> None:
    held, other = make_run("waiting", waiting_on="event:packed"), make_run("waiting", waiting_on="event:packed")
    for run in (held, other):
        journal_row(run, event_entry())
        send(run.pk)
    sweep = Sweep(db, DatabaseQueue())
    db.rows("SET statement_timeout = 5000")
    with row_locked(connect(), held.pk):
        assert sweep.tick() == 1
        assert (fresh(held).status, fresh(other).status) == ("waiting", "queued")
    assert sweep.tick() == 1
    assert fresh(held).status == "queued"


def test_a_process_that_freezes_in_its_commit_lets_go_of_its_rows(
    pool: ThreadPoolExecutor, lease: Lease, db: PrivateDatabase, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever sends its run an event would wait until it is thawed or killed."""
    monkeypatch.setattr(locking, "LOCK_SECONDS", PATIENCE)
    settings.DURABLE = {**settings.DURABLE, "LEASE_SECONDS": 2}
    frozen, thaw = Hooked(), threading.Event()
    committer = Committer(frozen, lambda *_: None)

    def freeze() -> None:
        # Its own session asks, which is not idle until then.
        wait_until(lambda: locking.is_waited_for(frozen), message="the wake to wait for the row")
        thaw.wait(PATIENCE)

    frozen.before["waiting_on = s.waiting_on"] = freeze
    suspending = pool.submit(committer.write, lease, Write(entries(event_entry()), outcome=Suspended("event:packed")))
    wait_until(lambda: not frozen.before, message="the freeze")
    try:
        send(lease.run_id)
        began = clock.monotonic()
        waking = pool.submit(recovery.wake, db, lease.run_id)
        assert waking.result(PATIENCE) == []
        assert clock.monotonic() - began < 20
        # A lease of two seconds would be over by now.
        lease.ends = clock.monotonic()
    finally:
        thaw.set()
    assert suspending.result(PATIENCE).is_lost
    assert fresh(lease.run_id).status == "running"
    assert paths(lease) == []
    committer.close()


def test_a_parent_whose_row_is_held_keeps_nobody_else_waiting(
    db: PrivateDatabase, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", PATIENCE)
    held, other = make_run("waiting", waiting_on="event:packed"), make_run("waiting", waiting_on="event:packed")
    for run in (held, other):
        journal_row(run, event_entry())
        send(run.pk)
    notifier = Notifier(db, connect(), DatabaseQueue())
    notifier.begin()
    with row_locked(connect(), held.pk):
        notifier.wake_parent(held.pk, "child")
        notifier.wake_parent(other.pk, "child")
        wait_until(lambda: fresh(other).status == "queued", message="the other parent to be woken")
        assert fresh(held).status == "waiting"
        assert not notifier.is_idle
    wait_until(lambda: fresh(held).status == "queued", message="the held parent to be woken")
    notifier.stop()


@pytest.mark.usefixtures("travel")
def test_the_fire_loop_does_not_wait_for_a_parent_that_is_held(
    db: PrivateDatabase, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """A predecessor that it cancels may be somebody's child; the next sweep wakes that one."""
    row, loop = make_schedule(overlap="cancel_previous"), fire_loop()
    move_to(next_of(row))
    loop.tick()
    parent = make_run("waiting", waiting_on="child:inside", wake_at=None)
    journal_row(parent, child_entry("inside"))
    Run.objects.filter(workflow=NIGHTLY).update(parent_id=parent.pk, parent_path="inside")
    move_to(next_of(row))
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 5000")
    with row_locked(connect(), parent.pk):
        loop.tick()
        assert "the database refused" not in caplog.text
        assert outcomes(row) == ["fired", "fired"]
        assert sorted(run.status for run in Run.objects.filter(workflow=NIGHTLY)) == ["cancelled", "queued"]
        assert fresh(parent).status == "waiting"
    Sweep(db, DatabaseQueue()).tick()
    assert fresh(parent).status == "queued"
    connection.close()

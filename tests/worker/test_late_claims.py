"""A claim that the database is late with when its process drains: no run stays with a process that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from django.db import connections

from django_durable.models import JournalEntry
from django_durable.queues.database import DatabaseQueue
from django_durable.store.claiming import claim_ids, claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.worker import claimer as module
from django_durable.worker import process as process_module
from django_durable.worker.child import STILL_BUSY, _status
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.app import workflows
from tests.processes import PATIENCE, wait_until
from tests.store.rows import fresh, make_run, running
from tests.worker.test_claimer import Parts, refuse

pytestmark = pytest.mark.django_db(transaction=True)


class Stalled:
    """A database that answers a claim when ``answers`` is set."""

    def __init__(self) -> None:
        self.is_asked, self.answers = threading.Event(), threading.Event()

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.is_asked.set()
        self.answers.wait(PATIENCE)
        return claim_next(*arguments, **options)


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stalled]:
    stalled = Stalled()
    monkeypatch.setattr(module, "claim_next", stalled)
    monkeypatch.setattr(module, "STOP_SECONDS", 0.05)
    yield stalled
    stalled.answers.set()


@pytest.fixture
def process(stalled: Stalled, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    monkeypatch.setattr(process_module, "current_queue", DatabaseQueue)
    monkeypatch.setattr(process_module, "limits", dict)
    process = WorkerProcess(uuid4(), WorkerOptions(loops=False, concurrency=4))
    assert process._register()
    process._begin()
    assert stalled.is_asked.wait(PATIENCE)
    yield process
    # What the death of the process is for.
    stalled.answers.set()
    process._claimer._thread.join(PATIENCE)
    wait_until(lambda: process._slots.used == 0)
    process._threads.close()
    process._aftermath.stop()
    process._committer.close()
    process._heartbeat.stop()
    for one in (process._claimer._db, process._heartbeat._db, process._db):
        one.close()
    connections.close_all()


def test_a_process_whose_claim_is_not_answered_leaves_it_to_its_supervisor(
    process: WorkerProcess, settings: Any
) -> None:
    """Not drained, as it would say otherwise: what comes of the claim then would wait until its lease lapses, and be a
    suspect that never began."""
    settings.DURABLE = {**settings.DURABLE, "SHUTDOWN_GRACE_SECONDS": 0.05}
    workflows.doubling.enqueue(number=1)
    is_empty = process._end()
    assert _status(cast(Any, SimpleNamespace(is_done=False, gave_up=False)), is_empty) == STILL_BUSY


def test_a_claim_that_is_answered_within_the_grace_is_handed_back_before_the_process_ends(
    process: WorkerProcess, stalled: Stalled, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = workflows.many_steps.enqueue(3)
    wait = process._slots.wait_until_empty

    def answered_later(timeout: float) -> bool:
        """There is nothing yet that would have to be waited for."""
        is_empty = wait(timeout)
        stalled.answers.set()
        return is_empty

    monkeypatch.setattr(process._slots, "wait_until_empty", answered_later)
    assert process._end()
    row = fresh(run.id)
    assert (row.status, row.claims, row.suspect, row.lease_token) == ("queued", 1, False, None)
    assert not JournalEntry.objects.filter(run_id=run.id).exists()


def test_what_a_late_claim_brings_is_asked_to_end_at_once(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks those that are there has done so before."""
    early = make_run()
    parts = Parts(db, 8, early)
    parts.claimer.tick()
    late = make_run()
    parts.queue.ids = [late.pk]

    def told_to_stop_meanwhile(*arguments: Any, **options: Any) -> Any:
        parts.claimer._stop.set()
        return claim_ids(*arguments, **options)

    monkeypatch.setattr(module, "claim_ids", told_to_stop_meanwhile)
    parts.claimer.tick()
    assert [(claim.run_id, claim.lease.release_requested) for claim in parts.started] == [
        (early.pk, False),
        (late.pk, True),
    ]


@pytest.mark.parametrize("is_handed_back", [True, False])
def test_a_claimer_has_not_ended_while_claims_are_to_be_handed_back(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, is_handed_back: bool
) -> None:
    parts = Parts(db, 8)
    parts.claimer._unstarted = [running(db).lease]
    parts.claimer._stop.set()
    if not is_handed_back:
        monkeypatch.setattr(module, "hand_back", refuse)
    parts.claimer.begin()
    parts.claimer.stop()
    assert parts.claimer.has_ended(5) is is_handed_back

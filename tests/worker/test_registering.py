"""A process stands in the table of workers as long as it lives, whoever removes its row."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.utils import timezone

from django_durable.models import Hold, Worker
from django_durable.store import holding
from django_durable.store.auditing import Verb
from django_durable.store.database import Database, PrivateDatabase
from django_durable.worker.process import WorkerOptions, WorkerProcess

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def process(transactional_db: None) -> Iterator[WorkerProcess]:
    process = WorkerProcess(uuid4(), WorkerOptions(concurrency=7))
    assert process._register()
    yield process
    process._committer.close()
    for one in (process._claimer._db, process._heartbeat._db, process._db):
        one.close()


def row_of(process: WorkerProcess) -> dict[str, object]:
    times = ("started_at", "heartbeat_at")
    [row] = Worker.objects.filter(pk=process._who.id).values()
    return {name: value for name, value in row.items() if name not in times}


def test_a_process_whose_row_is_gone_registers_again(
    process: WorkerProcess, db: PrivateDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """It was frozen for so long that its row was deleted, or a failover has lost it."""
    before = row_of(process)
    Worker.objects.all().delete()
    holding.hold(Database(), Hold.QUEUE, "default", Verb())
    with caplog.at_level(logging.WARNING, "django_durable"):
        process._beat(db)
        process._beat(db)
    assert row_of(process) == before
    assert process._claimer.held.queues == {"default"}, "heard of with the same beat"
    assert caplog.messages == [f"the database has forgotten worker={process._who.id}; registered again"]


def test_a_process_that_passes_for_stopped_and_lives_is_alive_again(
    process: WorkerProcess, db: PrivateDatabase
) -> None:
    Worker.objects.update(stopped_at=timezone.now())
    process._beat(db)
    assert row_of(process)["stopped_at"] is None


def test_a_registration_leaves_no_connection_behind_that_would_idle_until_the_end(process: WorkerProcess) -> None:
    assert process._db.connection.connection is None

"""The end of a process: what its commits have caused is told before it goes, as far as there is time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest

from django_durable.core import clock
from django_durable.core.journal.journal import Write
from django_durable.queues import Ready
from django_durable.queues.database import DatabaseQueue
from django_durable.store.database import PrivateDatabase
from django_durable.store.receipts import Receipt
from django_durable.worker import process as module
from django_durable.worker.aftermath import Aftermath
from django_durable.worker.background import Background
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.slots import Slots
from tests.processes import PATIENCE
from tests.store.rows import fresh, running

pytestmark = pytest.mark.django_db(transaction=True)


class SlowQueue(DatabaseQueue):
    """Takes a push in when it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[UUID] = []
        self.is_open = threading.Event()

    def push(self, runs: Sequence[Ready]) -> None:
        if runs:
            self.is_open.wait(60)
            self.ids += [run.id for run in runs]


@pytest.fixture
def queue() -> Iterator[SlowQueue]:
    queue = SlowQueue()
    yield queue
    queue.is_open.set()


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background("background")
    background.begin()
    yield background
    background.stop()


def test_a_flush_waits_until_everything_is_done(background: Background) -> None:
    done: list[int] = []
    for number in range(100):
        background.do(partial(done.append, number))
    assert background.flush(clock.monotonic() + 60) == 0
    assert done == list(range(100))
    assert background.is_idle


def test_a_flush_that_takes_too_long_tells_how_much_is_left(background: Background) -> None:
    gate = threading.Event()
    for _ in range(3):
        background.do(lambda: gate.wait(60))
    began = clock.monotonic()
    assert background.flush(began + 0.1) == 3
    assert clock.monotonic() - began < 20
    gate.set()
    assert background.flush(clock.monotonic() + 60) == 0


def test_a_thread_that_still_works_is_not_waited_for_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.worker.background.END_SECONDS", 0.05)
    background, gate = Background("background"), threading.Event()
    background.begin()
    background.do(lambda: gate.wait(60))
    background.stop()
    assert not background.is_idle
    gate.set()
    assert background.flush(clock.monotonic() + 60) == 0


def a_commit(count: int = 1) -> Receipt:
    return Receipt(is_held=True, ready=[Ready(uuid4(), "default", 0) for _ in range(count)])


def test_what_could_not_be_told_in_time_is_counted_in_the_log(
    queue: SlowQueue, db: PrivateDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    aftermath, lease = Aftermath(queue, Slots(1)), running(db).lease
    aftermath.begin()
    for _ in range(3):
        aftermath.committed(lease, Write(), a_commit())
    with caplog.at_level(logging.WARNING, "django_durable"):
        aftermath.flush(0.05)
        assert caplog.messages == ["not told in time: hints=3 signals=0; the sweep finds the runs"]
        queue.is_open.set()
        aftermath.flush(60)
    assert len(queue.ids) == 3
    assert len(caplog.messages) == 1
    aftermath.stop()


@pytest.mark.parametrize("is_busy", [False, True], ids=["drained", "code-still-runs"])
def test_a_process_that_ends_tells_of_its_commits_first(
    is_busy: bool, queue: SlowQueue, db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """Also where code outlives the grace: the process then dies as soon as it has been told so."""
    settings.DURABLE = {**settings.DURABLE, "SHUTDOWN_GRACE_SECONDS": 0.05}
    monkeypatch.setattr(module, "FLUSH_SECONDS", PATIENCE)
    monkeypatch.setattr(module, "current_queue", lambda: queue)
    process, claim, told = WorkerProcess(uuid4(), WorkerOptions(loops=False)), running(db), a_commit(2)
    assert process._register()
    process._begin()
    process._slots.take(claim)
    process._committer.noted(claim.lease, Write(), told)
    if not is_busy:
        process._slots.free(claim.lease)
    threading.Timer(0.3, queue.is_open.set).start()
    assert process._end() is not is_busy
    assert queue.ids == [run.id for run in told.ready]
    assert fresh(claim.run_id).status == "running"
    # What the death of the process is for.
    process._aftermath.stop()
    process._committer.close()
    process._heartbeat.stop()
    for connection in (process._claimer._db, process._heartbeat._db):
        connection.close()

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from uuid import UUID, uuid4

import pytest
from django.db.utils import OperationalError

from django_durable.models import Payload
from django_durable.queues import Ready
from django_durable.queues.database import DatabaseQueue
from django_durable.store.database import PrivateDatabase
from django_durable.worker import background
from django_durable.worker.notifier import Notifier
from tests.processes import PATIENCE
from tests.store.rows import event_entry, fresh, journal_row, make_run, send

pytestmark = pytest.mark.django_db(transaction=True)


class Heard(DatabaseQueue):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[UUID] = []

    def push(self, runs: Sequence[Ready]) -> None:
        self.ids += [run.id for run in runs]


@pytest.fixture
def queue() -> Heard:
    return Heard()


@pytest.fixture
def notifier(
    connect: Callable[[], PrivateDatabase], queue: Heard, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notifier]:
    # To connect and to write may take longer than a process that ends has the time for.
    monkeypatch.setattr(background, "END_SECONDS", PATIENCE)
    notifier = Notifier(connect(), connect(), queue)
    notifier.begin()
    yield notifier
    notifier.stop()


def test_everything_is_told_in_order_before_the_end(notifier: Notifier, queue: Heard) -> None:
    ids = [uuid4() for _ in range(100)]
    for run_id in ids:
        notifier.push([Ready(run_id, "default", 0)])
    notifier.stop()
    assert queue.ids == ids


def test_a_wake_queues_the_run_and_tells_of_it(notifier: Notifier, queue: Heard) -> None:
    run = make_run("waiting", waiting_on="event:packed")
    journal_row(run, event_entry())
    send(run.pk)
    notifier.wake_parent(run.pk, "child")
    notifier.stop()
    assert fresh(run).status == "queued"
    assert queue.ids == [run.pk]


def test_one_look_is_enough_for_all_who_have_ended_before_it_begins(
    notifier: Notifier, queue: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[UUID, str]] = []
    begun, ended = Event(), Event()

    def look(db: object, parent_id: UUID, path: str) -> list[Ready]:
        looks.append((parent_id, path))
        begun.set()
        assert ended.wait(60)
        return []

    monkeypatch.setattr("django_durable.store.recovery.try_wake_parent", look)
    parent, other = uuid4(), uuid4()
    notifier.wake_parent(parent, "each[0]")
    assert begun.wait(60)
    # This one has ended after the look began: it must not rely on that.
    for path in ("each[1]", "each[2]", "each[1]", "alone", "more[1]"):
        notifier.wake_parent(parent, path)
    notifier.wake_parent(other, "each[1]")
    ended.set()
    notifier.stop()
    assert looks == [
        (parent, "each[0]"),
        (parent, "each[1]"),
        (parent, "alone"),
        (parent, "more[1]"),
        (other, "each[1]"),
    ]


def test_the_children_of_a_lost_branch_are_cancelled_and_the_queue_hears_of_them(
    notifier: Notifier, queue: Heard
) -> None:
    parent = make_run("running")
    child = make_run("waiting", parent_id=parent.pk, parent_path="any/slow/child")
    Payload.objects.create(run_id=parent.pk, kind="unwanted", data="any/slow/child")
    notifier.cancel(parent.pk, ["any/slow/child"])
    notifier.stop()
    assert fresh(child).status == "queued"
    assert fresh(child).cancel_requested_at is not None
    assert queue.ids == [child.pk]
    assert not Payload.objects.filter(kind="unwanted").exists()


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a mistake")])
def test_a_task_that_fails_is_logged_and_the_next_one_is_done(
    error: Exception, notifier: Notifier, queue: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    with caplog.at_level(logging.WARNING, "django_durable"):
        notifier.do(fail)
        notifier.push([Ready(uuid4(), "default", 0)])
        notifier.stop()
    assert len(queue.ids) == 1
    assert len(caplog.records) == 1

"""Signals for what maintenance and commits do to runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_durable import signals
from django_durable.models import Run
from django_durable.queues.database import DatabaseQueue
from django_durable.store.database import Database, PrivateDatabase
from django_durable.testing import run_until_idle
from django_durable.worker.loops.fit import Fit
from django_durable.worker.loops.reap import Reap
from tests.app import workflows
from tests.store.rows import make_run

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, object, Any]]]:
    """Signal, sender and run of everything that is sent."""
    found: list[tuple[str, object, Any]] = []
    receivers = []
    for name in ("run_enqueued", "run_blocked", "run_cancelled", "run_succeeded"):

        def receive(sender: object, run_id: Any, name: str = name, **facts: Any) -> None:
            found.append((name, sender, run_id))

        getattr(signals, name).connect(receive)
        receivers.append((getattr(signals, name), receive))
    yield found
    for signal, receive in receivers:
        signal.disconnect(receive)


def test_a_child_is_announced_with_its_own_workflow(heard: list[tuple[str, object, Any]]) -> None:
    run = workflows.parent.enqueue(2)
    run_until_idle()
    children = Run.objects.filter(parent_id=run.id).values_list("pk", flat=True)
    assert {one for one in heard if one[0] == "run_enqueued"} == {
        ("run_enqueued", workflows.parent, run.id),
        *(("run_enqueued", workflows.doubling, child) for child in children),
    }


def test_a_run_that_killed_its_process_too_often_is_announced(heard: list[tuple[str, object, Any]]) -> None:
    run = make_run("running", suspect=True, crashes=2, workflow="app.doubling", lease_expires_at="2001-01-01T00:00Z")
    Reap(Database(), DatabaseQueue())._reap(None)
    assert heard == [("run_blocked", workflows.doubling, run.pk)]


def test_a_run_that_nobody_knows_is_announced_without_a_sender(
    heard: list[tuple[str, object, Any]], db: PrivateDatabase
) -> None:
    run = make_run("queued", workflow="app.nobody", queued_at="2001-01-01T00:00Z")
    announce_a_worker()
    Fit(DatabaseQueue(), ["default"]).tick()
    assert heard == [("run_blocked", None, run.pk)]


def announce_a_worker() -> None:
    from django.utils import timezone

    from django_durable.core.ids import uuid7
    from django_durable.models import Worker

    now = timezone.now()
    Worker.objects.create(
        id=uuid7(), host="h", pid=1, concurrency=1, started_at=now, heartbeat_at=now, workflows=["app.doubling"]
    )

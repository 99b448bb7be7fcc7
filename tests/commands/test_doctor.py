from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.test import override_settings
from django.utils import timezone

from django_durable.models import Run, Worker
from django_durable.queues.current import queue_kind
from tests.app.workflows import doubling
from tests.commands.conftest import Call
from tests.commands.rows import a_run, an_entry

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _short_lease(settings: Any) -> Iterator[None]:
    """A lease that SQLite's timeout in the tests' settings covers."""
    settings.DURABLE = {**settings.DURABLE, "LEASE_SECONDS": 6, "HEARTBEAT_SECONDS": 2}
    yield


def a_worker(*queues: str, heartbeat: timedelta = timedelta(0), **columns: Any) -> Worker:
    now = timezone.now()
    seen = {"started_at": now, "heartbeat_at": now - heartbeat}
    return Worker.objects.create(id=uuid4(), host="h", pid=1, concurrency=4, queues=queues, **seen, **columns)


def test_all_is_well(call: Call, backend: str) -> None:
    worker = a_worker("default")
    doubling.enqueue(1)
    called = call("durable_doctor", "--json")
    assert called.failed is None, called.data["problems"]
    data = called.data
    assert (data["ok"], data["problems"], data["checks"]) == (True, [], {})
    assert data["settings"]["LEASE_SECONDS"] == 6
    assert data["settings"]["QUEUE"] == queue_kind()
    assert data["database"]["vendor"] == ("sqlite" if backend == "sqlite" else "postgresql")
    assert data["database"]["ping_ms"] > 0
    assert "django_durable_run" in data["database"]["tables"]
    assert [one["id"] for one in data["runs"]["workers"]] == [str(worker.pk)]
    [queue] = data["runs"]["queues"]
    assert (queue["queue"], queue["ready"]) == ("default", 1)
    assert queue["in_redis"] == (0 if queue_kind() == "redis" else None)
    assert data["redis"]["used"] is (queue_kind() == "redis")
    assert call("durable_doctor").out.endswith("All is well.\n")


def problems(call: Call) -> list[str]:
    called = call("durable_doctor", "--json")
    assert (called.failed is None) == (called.data["problems"] == [])
    assert call("durable_doctor").out.count("PROBLEM") == len(called.data["problems"])
    return list(called.data["problems"])


def test_nothing_to_do_and_nobody_to_do_it_is_well(call: Call) -> None:
    assert problems(call) == []
    assert call("durable_doctor", "--json").data["notes"] == ["No worker is alive."]


def test_a_queue_that_nobody_serves(call: Call) -> None:
    a_worker("other")
    a_worker("vip", heartbeat=HOUR)
    doubling.using(queue="vip").enqueue(1)
    [problem] = problems(call)
    assert problem.startswith("No live worker serves the queue 'vip', where 1 run could start.")


def test_a_suspect_that_nobody_serves(call: Call) -> None:
    """What there is of processes for suspects a worker has started."""
    a_run(status="queued", queue="vip", suspect=True)
    isolated = a_worker("vip", is_isolated=True)
    [problem] = problems(call)
    assert problem.startswith("No live worker serves the queue 'vip', where 1 run could start.")
    data = call("durable_doctor", "--json").data
    assert [(queue["ready"], queue["suspects"]) for queue in data["runs"]["queues"]] == [(0, 1)]
    assert [one["id"] for one in data["runs"]["workers"]] == [str(isolated.pk)]
    assert "No worker is alive." in data["notes"]
    a_worker("vip")
    assert problems(call) == []


@pytest.mark.behaviour("RUN-18a")
def test_lapsed_leases(call: Call) -> None:
    a_run(status="running", lease_token=uuid4(), leased_by=uuid4(), lease_expires_at=timezone.now() - HOUR)
    a_run(status="running", lease_token=uuid4(), leased_by=uuid4(), lease_expires_at=timezone.now())
    [problem] = problems(call)
    assert problem.startswith("1 run with a lapsed lease")


@pytest.mark.behaviour("RUN-18b")
def test_runs_that_are_worked_on_and_come_to_nothing(call: Call) -> None:
    def running(since: timedelta) -> Run:
        begun = timezone.now() - since
        lease = {"lease_token": uuid4(), "leased_by": uuid4(), "lease_expires_at": timezone.now() + HOUR}
        return a_run(age=since, status="running", started_at=begun, **lease)

    running(HOUR / 2)
    an_entry(running(3 * HOUR), started_at=timezone.now() - HOUR / 2)
    an_entry(running(3 * HOUR), wake_at=timezone.now() - HOUR / 2)
    an_entry(running(3 * HOUR), wake_at=timezone.now() + HOUR)
    running(2 * HOUR)
    assert problems(call) == []
    data = call("durable_doctor", "--json").data
    assert data["runs"]["without_progress"] == 2
    assert data["notes"][1].startswith("2 runs being worked on without having journaled anything for an hour")


def test_due_runs_that_nobody_promoted(call: Call) -> None:
    a_run(status="waiting", wake_at=timezone.now() - HOUR)
    a_run(status="scheduled", wake_at=timezone.now() + HOUR)
    [problem] = problems(call)
    assert problem.startswith("1 run due for more than 10 s")


def test_blocked_runs_and_suspects(call: Call) -> None:
    a_worker("default")
    for reason in ("crashed", "crashed", "diverged"):
        a_run(status="blocked", block_reason=reason)
    a_run(status="queued", suspect=True)
    found = problems(call)
    assert [problem.split(".")[0] for problem in sorted(found)] == [
        "1 run blocked: diverged",
        "2 runs blocked: crashed",
    ]
    assert call("durable_doctor", "--json").data["notes"] == ["1 run whose process died, to be run alone next."]


def test_failing_checks(call: Call) -> None:
    with override_settings(DURABLE={"QUEUE": "database", "LEASE_SECOND": 4, "LEASE_SECONDS": 15}):
        found = problems(call)
    assert {problem.split(":")[0] for problem in found} == {"django_durable.E002", "django_durable.E005"}


@pytest.mark.parametrize("durable", [["QUEUE"], {"DATABASE": "nowhere"}, {"LEASE_SECONDS": "long"}])
def test_settings_that_break_everything_are_still_examined(call: Call, durable: Any) -> None:
    with override_settings(DURABLE=durable):
        called = call("durable_doctor", "--json")
    assert called.failed is not None
    assert any("django_durable.E0" in problem for problem in called.data["problems"])


def test_a_database_that_does_not_answer(call: Call) -> None:
    with patch("django_durable.store.database.Database.rows", side_effect=OperationalError("connection refused")):
        called = call("durable_doctor", "--json")
    assert "database could not be examined: OperationalError: connection refused" in called.data["problems"]
    assert called.data["settings"]


def test_migrations_that_are_not_applied(call: Call) -> None:
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder.Migration.objects.filter(app="django_durable").order_by("-pk")[0].delete()
    [problem] = problems(call)
    assert problem.startswith("Migrations are not applied: django_durable.0")


def test_redis_that_is_not_used(call: Call) -> None:
    with override_settings(DURABLE={"QUEUE": "database"}):
        assert call("durable_doctor", "--json").data["redis"] == {"used": False}

"""What `durable_worker` is told on its command line, and databases that are not ready for it."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from django.db import connection
from django.utils import timezone

from django_durable.core.ids import uuid7
from django_durable.models import Run
from django_durable.models import Worker as WorkerRow
from tests.acceptance.traces import traces, wait_for_success
from tests.app import faults
from tests.commands.rows import a_run
from tests.processes import Command, Worker, wait_until
from tests.servers import PostgresServer
from tests.store.rows import make_run, status_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.behaviour("RUN-16b")
def test_max_runs_ends_the_worker_with_runs_left() -> None:
    # More than two that are soon over: it takes a moment to see that they are.
    runs = faults.plodding.enqueue_many([{"steps": 1, "seconds": 0.3}] * 200)
    worker = Worker("--max-runs", "2", "--concurrency", "2")
    assert worker.wait() == 0
    ended = Run.objects.filter(status="succeeded").count()
    assert 2 <= ended < len(runs)
    assert not Run.objects.filter(status="running").exists()


def test_max_seconds_ends_the_worker() -> None:
    run = faults.plodding.enqueue(10_000, 0.02)
    # Its steps take longer than anybody waits here, and nothing else ends it.
    assert Worker("--max-seconds", "4").wait() == 0
    row = WorkerRow.objects.get()
    assert row.stopped_at - row.started_at > timedelta(seconds=3)
    assert run.refresh().status == "queued"
    assert traces(run.id)


def test_burst_ends_with_two_processes_and_does_what_the_work_itself_makes_due() -> None:
    runs = [faults.plodding.enqueue(3, 0) for _ in range(50)]
    assert Worker("--burst", "--processes", "2").wait() == 0
    assert all(run.refresh().status == "succeeded" for run in runs)
    assert not WorkerRow.objects.filter(stopped_at=None).exists()


def test_a_worker_without_loops_only_works_and_tells_each_event_as_one_json_object() -> None:
    # In a burst the loops tick before anybody looks for work: theirs would be done by its end.
    old = a_run(age=timedelta(days=1000))
    lapsed = make_run("running", lease_expires_at=timezone.now() - timedelta(hours=1))
    good, bad = faults.plodding.enqueue(2, 0), faults.exiting.enqueue()
    worker = Worker("--burst", "--no-loops", "--json-logs")
    assert worker.wait() == 0
    assert Run.objects.filter(pk=old.pk).exists()
    assert status_of(lapsed) == "running"

    events = [json.loads(line) for line in worker.log.splitlines()]
    assert all(event.keys() >= {"ts", "level", "logger", "message"} for event in events)
    of_runs = [(event["run"], event["workflow"], event["level"], event["message"].split()[0]) for event in events
               if "run" in event]  # fmt: skip
    assert sorted(of_runs) == sorted(
        [
            (str(good.id), "app.plodding", "INFO", "succeeded"),
            (str(bad.id), "app.exiting", "ERROR", "failed"),  # its step
            (str(bad.id), "app.exiting", "ERROR", "failed"),
        ]
    )
    of_the_worker = [event["message"].split()[0] for event in events if "run" not in event]
    assert of_the_worker == ["started", "draining", "stopped"]


@pytest.mark.behaviour("RUN-15d")
def test_a_workers_row_and_its_health_file_tell_that_it_lives(tmp_path: Path) -> None:
    health = tmp_path / "health"
    worker = Worker("--health-file", str(health), "--queues", "default,slow", "--concurrency", "7")
    wait_until(health.exists, message="the health file")
    row = WorkerRow.objects.get()
    assert [row.pid] == worker.children()
    assert (row.queues, row.concurrency, row.stopped_at) == (["default", "slow"], 7, None)
    assert "app.plodding" in row.workflows

    touched = health.stat().st_mtime_ns
    wait_until(lambda: health.stat().st_mtime_ns > touched, message="the next touch")
    wait_until(lambda: WorkerRow.objects.get().heartbeat_at > row.heartbeat_at, message="the next beat")
    worker.freeze()
    touched = health.stat().st_mtime_ns
    worker.thaw()
    wait_until(lambda: health.stat().st_mtime_ns > touched, message="a touch after the thaw")
    assert worker.stop() == 0
    assert WorkerRow.objects.get().stopped_at is not None


def test_a_worker_waits_for_a_database_that_is_down(postgres_server: PostgresServer) -> None:
    postgres_server.stop()
    connection.close()
    began = time.monotonic()
    worker = Worker()
    worker.wait_for_log("the database is down or not migrated, trying again")
    postgres_server.start()
    run = faults.plodding.enqueue(1, 0)
    wait_for_success(run.id)
    assert "Traceback" not in worker.log
    assert worker.log.count("trying again") < 12 + time.monotonic() - began


def test_a_worker_that_waits_for_its_database_can_be_stopped(postgres_server: PostgresServer) -> None:
    postgres_server.stop()
    connection.close()
    worker = Worker()
    worker.wait_for_log("trying again")
    assert worker.stop() == 0
    assert "Traceback" not in worker.log


@pytest.mark.contract
def test_a_worker_waits_for_the_tables(backend: str, tmp_path: Path) -> None:
    """Started together with `migrate`, as containers are."""
    name = str(tmp_path / "fresh.sqlite3") if backend == "sqlite" else "durable_fresh"
    if backend != "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
    environment = {"DURABLE_TEST_DATABASE_NAME": name}
    try:
        worker = Worker(env=environment)
        worker.wait_for_log("the database is down or not migrated, trying again")
        assert Command("migrate", "--verbosity", "0", env=environment).wait() == 0
        worker.wait_for_start()
        assert worker.stop() == 0
        assert "Traceback" not in worker.log
    finally:
        worker.kill()
        if backend != "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_dead_child_comes_back_more_and_more_slowly() -> None:
    worker, seen = Worker(), set[int]()
    for _ in range(2):
        # Before it works: one that has lived for five seconds, as long as a start may take, comes back at once again.
        [child] = wait_until(lambda: set(worker.children()) - seen, message="a child")
        seen.add(child)
        killed = time.monotonic()
        os.kill(child, signal.SIGKILL)
    # At once after the first death, a second after the next.
    wait_until(lambda: set(worker.children()) - seen, message="the third child")
    assert time.monotonic() - killed > 0.9
    worker.wait_for_start()


@pytest.mark.behaviour("WAIT-01a")
def test_ten_thousand_sleeping_runs_take_no_memory(tmp_path: Path) -> None:
    health = tmp_path / "health"
    worker = Worker("--health-file", str(health), durable={"HEARTBEAT_SECONDS": 0.1})

    def beats(count: int) -> None:
        for _ in range(count):
            touched = health.stat().st_mtime_ns
            wait_until(lambda touched=touched: health.stat().st_mtime_ns > touched, message="a heartbeat")

    wait_until(health.exists, message="the first heartbeat")
    wait_for_success(faults.plodding.enqueue(1, 0).id)
    beats(2)
    [process] = [psutil.Process(pid) for pid in worker.children()]
    before = process.memory_info().rss
    fall_asleep(10_000)
    beats(3)
    # A kilobyte for each would be more. On SQLite every connection has filled its page cache meanwhile, of 2 MB.
    assert process.memory_info().rss - before < 9 * 2**20


def fall_asleep(count: int) -> None:
    now = timezone.now()
    Run.objects.bulk_create(
        Run(
            id=(run_id := uuid7()),
            root_id=run_id,
            workflow="app.sleepy",
            queue="default",
            status="waiting",
            waiting_on="sleep:nap",
            wake_at=now + timedelta(hours=1),
            queued_at=now,
            started_at=now,
            claims=1,
        )
        for _ in range(count)
    )

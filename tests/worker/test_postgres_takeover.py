"""A supervisor and a database that restarts, or whose rows somebody holds: it takes over and does not hang."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from django_durable.models import Tally
from django_durable.models import Worker as WorkerRow
from django_durable.store import locking
from django_durable.store.database import PrivateDatabase
from django_durable.worker import takeover as module
from django_durable.worker.child import STILL_BUSY
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.supervisor import Supervisor
from tests.store.parallel import Hooked, row_locked
from tests.store.rows import beating, fresh, running
from tests.worker.children import KILLED, dead, held_by

pytestmark = pytest.mark.django_db(transaction=True)

Connect = Callable[[], PrivateDatabase]


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor(["never started"], 1)
    supervisor._start_at.clear()
    yield supervisor
    supervisor._db.close()


def end_other_sessions() -> None:
    """As a restart of the server does."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


@pytest.mark.parametrize("returncode", [KILLED, STILL_BUSY])
def test_a_restart_between_two_deaths_is_not_even_noticed(
    supervisor: Supervisor, connect: Connect, caplog: pytest.LogCaptureFixture, returncode: int
) -> None:
    supervisor._takeover.of(dead())
    child = dead(returncode)
    run_id = held_by(connect(), child)
    end_other_sessions()
    supervisor._takeover.of(child)
    assert fresh(run_id).status == "queued"
    assert "could not" not in caplog.text


def test_no_connection_idles_between_two_deaths_or_two_looks(supervisor: Supervisor) -> None:
    supervisor._takeover.of(dead())
    assert supervisor._db.connection.connection is None
    supervisor._count_busy([dead(place=None)])
    assert supervisor._db.connection.connection is None


@pytest.mark.parametrize("returncode", [KILLED, STILL_BUSY])
def test_a_session_that_is_lost_in_the_midst_of_it_is_replaced_once(
    supervisor: Supervisor, connect: Connect, caplog: pytest.LogCaptureFixture, returncode: int
) -> None:
    child = dead(returncode)
    beating(child.id)
    run_id = held_by(connect(), child)
    supervisor._takeover._db = db = Hooked()

    def lose_session() -> None:
        db.connection.ensure_connection()
        end_other_sessions()

    db.before["UPDATE django_durable_run"] = lose_session
    supervisor._takeover.of(child)
    assert fresh(run_id).status == "queued"
    assert WorkerRow.objects.get(pk=child.id).stopped_at is not None
    assert "could not" not in caplog.text
    # Told once, and before anything was asked of the database.
    assert caplog.text.count("died worker=") == (returncode == KILLED)


def test_a_session_that_is_lost_each_time_leaves_it_to_the_reaper(
    supervisor: Supervisor, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    child = dead()
    run_id = held_by(connect(), child)

    class Lost(PrivateDatabase):
        tries = 0

        def rows(self, sql: str, **parameters: Any) -> Any:
            if "UPDATE django_durable_run" in sql:
                self.tries += 1
                self.connection.ensure_connection()
                end_other_sessions()
            return super().rows(sql, **parameters)

    supervisor._takeover._db = lost = Lost()
    supervisor._takeover.of(child)
    assert lost.tries == 2
    assert fresh(run_id).status == "running"
    assert caplog.text.count("could not take over") == 1


def test_an_error_that_is_not_the_session_s_is_not_tried_again(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[UUID] = []

    def fail(db: PrivateDatabase, worker_id: UUID) -> None:
        tries.append(worker_id)
        db.rows("SELECT no_such_column FROM django_durable_run")

    monkeypatch.setattr(module.recovery, "release_worker", fail)
    supervisor._takeover.of(dead(STILL_BUSY))
    assert len(tries) == 1
    assert caplog.text.count("could not take over") == 1


# --- rows that somebody holds ------------------------------------------------------------------


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)


@pytest.mark.usefixtures("_impatient")
def test_what_a_drained_child_held_is_handed_back_once_nobody_holds_its_row(
    supervisor: Supervisor, connect: Connect
) -> None:
    child, db = dead(STILL_BUSY), connect()
    run_id = held_by(db, child)
    with row_locked(connect(), run_id):
        began = time.monotonic()
        supervisor._takeover.of(child)
        supervisor._takeover.try_again()
        assert time.monotonic() - began < 20
        assert fresh(run_id).status == "running"
        # Nor does the supervisor end before that: nobody else would leave it unsuspected.
        assert supervisor._is_needed()
    supervisor._takeover.try_again()
    row = fresh(run_id)
    assert (row.status, row.suspect, row.crashes) == ("queued", False, 0)
    assert not supervisor._is_needed()


@pytest.mark.usefixtures("_impatient")
def test_a_row_that_is_held_for_longer_than_a_lease_is_left_to_the_reaper(
    supervisor: Supervisor, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    child = dead(STILL_BUSY)
    run_id = held_by(connect(), child)
    with row_locked(connect(), run_id):
        supervisor._takeover.of(child)
        supervisor._takeover._held_up[child.id] = (child, time.monotonic())
        supervisor._takeover.try_again()
    assert not supervisor._is_needed()
    assert fresh(run_id).status == "running"
    assert "could not take over" in caplog.text


# --- a worker process --------------------------------------------------------------------------


def test_a_process_signs_off_and_tells_its_counts_after_a_restart_of_the_database(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    process = WorkerProcess(uuid4(), WorkerOptions())
    assert process._register()
    process._aftermath.tallies.started(running(connect()))
    end_other_sessions()
    process._sign_off()
    process._aftermath.tallies.flush(process._db)
    assert WorkerRow.objects.get(pk=process._who.id).stopped_at is not None
    assert caplog.text == ""
    assert Tally.objects.get(kind=Tally.RUNS).started == 1
    process._committer.close()
    for one in (process._claimer._db, process._heartbeat._db, process._db):
        one.close()

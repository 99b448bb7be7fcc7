"""The disk under PostgreSQL's tables is full for a while: nothing fails and nothing is lost, work waits and goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import OperationalError, connection

from django_durable.models import Event, Run
from tests.acceptance.traces import new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.invariants import violated
from tests.processes import LASTING, PATIENCE
from tests.servers import PostgresServer
from tests.system.mounting import SmallDisk, small_disk
from tests.system.workflows import filling, filling_async
from tests.system.working import failed, repeated, start_worker

pytestmark = pytest.mark.django_db(transaction=True)

STEPS, SIZE = 20, 20_000
MOVE = ("ALTER TABLE ALL IN TABLESPACE {0} SET TABLESPACE {1}", "ALTER INDEX ALL IN TABLESPACE {0} SET TABLESPACE {1}")


@pytest.fixture
def disk(postgres_server: PostgresServer, folder: Path) -> Iterator[SmallDisk]:
    """Where every table of the test database lies, with its indexes."""
    with small_disk(folder / "disk", "32m", postgres_server.user) as disk:
        connection.close()
        name = str(connection.settings_dict["NAME"])
        execute(postgres_server, "postgres", f"CREATE TABLESPACE small LOCATION '{disk.path}'")
        execute(postgres_server, name, *(text.format("pg_default", "small") for text in MOVE))
        yield disk
        disk.free()
        connection.close()
        execute(postgres_server, name, *(text.format("small", "pg_default") for text in MOVE))
        execute(postgres_server, "postgres", "DROP TABLESPACE small")


def execute(server: PostgresServer, name: str, *statements: str) -> None:
    """In the database of this name, each by itself."""
    with psycopg.connect(server.url, dbname=name, autocommit=True) as direct:
        for statement in statements:
            direct.execute(statement)


def test_a_full_disk_costs_time_and_nothing_else(disk: SmallDisk) -> None:
    gate, each = new_gate(), range(6)
    # A place for each run. And a lease that holds as long as nobody can renew it.
    worker = start_worker("--concurrency", "12", durable=LASTING)
    waiting = faults.knocked.enqueue(1)
    runs = [filling.enqueue(STEPS, SIZE, gate) for _ in each] + [filling_async.enqueue(STEPS, SIZE, gate) for _ in each]
    for run in runs:
        wait_for_trace(run.id, "gate")
    children = worker.children()
    disk.fill()
    open_gate(gate)
    worker.wait_for_log("the database refused a commit")
    assert "No space left on device" in worker.log
    with pytest.raises(OperationalError, match="No space left on device"):
        waiting.send_event("knock", os.urandom(500_000).hex())
    connection.close()
    assert not Event.objects.exists()
    assert failed() == [] and Run.objects.filter(pk__in=[run.id for run in runs]).live().exists()

    disk.free()
    wait_for_success(*(run.id for run in runs))
    waiting.send_event("knock", "again")
    assert waiting.result(timeout=PATIENCE) == ["again"]
    assert [run.result() for run in runs] == [STEPS] * len(runs)
    assert worker.children() == children
    assert set(Run.objects.values_list("attempt", "crashes", "suspect")) == {(1, 0, False)}
    assert repeated(*(run.id for run in runs)) == {}
    assert violated() == []
    assert worker.stop() == 0

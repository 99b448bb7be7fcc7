"""The disk under an SQLite file is full for a while: nothing fails and nothing is lost, work waits and goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from django_durable.models import Event, Run
from tests.acceptance.traces import new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults
from tests.invariants import violated
from tests.processes import LASTING, PATIENCE
from tests.system.mounting import SmallDisk, small_disk
from tests.system.workflows import filling, filling_async
from tests.system.working import failed, repeated, start_worker
from tests.upgrades.databases import execute, lead_to

pytestmark = pytest.mark.django_db(transaction=True)

STEPS, SIZE = 20, 10_000


@pytest.fixture
def disk(transactional_db: None, folder: Path) -> Iterator[SmallDisk]:
    """Where the database is, for this process and for those that it starts."""
    own = str(connection.settings_dict["NAME"])
    with small_disk(folder / "disk", "8m") as disk, pytest.MonkeyPatch.context() as patch:
        execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        name = str(disk.path / "test.sqlite3")
        shutil.copyfile(own, name)
        patch.setenv("DURABLE_TEST_DATABASE_NAME", name)
        lead_to(name)
        yield disk
        disk.free()
        lead_to(own)


def test_a_full_disk_costs_time_and_nothing_else(disk: SmallDisk) -> None:
    gate, each = new_gate(), range(3)
    # A place for each run. And a lease that holds as long as nobody can renew it.
    worker = start_worker("--concurrency", "6", durable=LASTING)
    waiting = faults.knocked.enqueue(1)
    runs = [filling.enqueue(STEPS, SIZE, gate) for _ in each] + [filling_async.enqueue(STEPS, SIZE, gate) for _ in each]
    for run in runs:
        wait_for_trace(run.id, "gate")
    children = worker.children()
    disk.fill()
    open_gate(gate)
    worker.wait_for_log("the database refused a commit")
    with pytest.raises(OperationalError, match=r"full|disk I/O error"):
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
    assert set(Run.objects.values_list("attempt", "crashes")) == {(1, 0)}
    assert repeated(*(run.id for run in runs)) == {}
    assert violated() == []
    assert worker.stop() == 0

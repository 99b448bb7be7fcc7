"""PostgreSQL's machine is gone from one moment to the next, another one is there, and no connection was closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.traces import executions, new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app.workflows import doubling
from tests.invariants import violated
from tests.processes import Worker
from tests.servers import PostgresServer
from tests.system.vanishing import PORT, Machine
from tests.system.workflows import held
from tests.system.working import failed, start_worker

pytestmark = pytest.mark.django_db(transaction=True)

LEASE = 4.0


@pytest.fixture
def machines(postgres_server: PostgresServer, folder: Path) -> Iterator[tuple[Machine, Machine]]:
    with Machine(folder, postgres_server, 1) as first, Machine(folder, postgres_server, 2) as second:
        yield first, second


@pytest.fixture
def worker(machines: tuple[Machine, Machine]) -> Iterator[Worker]:
    """Ended before the machines are: it would look for them elsewhere."""
    hosts = ",".join(f"{machine.address}:{PORT}" for machine in machines)
    url = {"DURABLE_TEST_DATABASE_URL": f"postgresql://postgres@{hosts}/postgres"}
    worker = start_worker("--concurrency", "4", env=url, durable={"LEASE_SECONDS": LEASE})
    yield worker
    worker.kill()


def test_who_waits_for_it_asks_the_other_one(machines: tuple[Machine, Machine], worker: Worker) -> None:
    """What the kernel does by itself takes a quarter of an hour."""
    wait_for_success(doubling.enqueue(number=1).id)
    gate = new_gate()
    under_way = held.enqueue(gate)
    wait_for_trace(under_way.id, "second")
    machines[0].vanish()
    later = [doubling.enqueue(number=number) for number in range(8)]
    open_gate(gate)
    wait_for_success(under_way.id, *(run.id for run in later))
    # Whose result could not be stored is executed again, and nothing else is.
    assert executions(under_way.id)["second"] <= 2
    assert worker.stop() == 0
    assert failed() == []
    assert violated() == []

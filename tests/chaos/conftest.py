"""Evidence for tests of the checker, totals for those of the goals, a connection through a proxy for those of the
wires."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.echoing import LONG, echoing, read
from tests.chaos.goals import FAULTS_A_MINUTE, HITS_A_MINUTE, RECOVERIES_A_MINUTE, RUNS_A_MINUTE
from tests.chaos.making import Making
from tests.chaos.planting import FAILING, ONE_STEP, PROGRAM, recovered
from tests.chaos.proxy import Proxy
from tests.chaos.totals import Totals


@pytest.fixture
def making() -> Making:
    """Some runs that went well, beside which something is planted."""
    making = Making()
    making.run("fine", PROGRAM)
    making.run("failing", FAILING)
    making.run("keyed", ONE_STEP, key="k")
    making.enqueue("keyed", key="k")
    return making


@pytest.fixture
def totals() -> Totals:
    """Half a minute that was just good enough."""
    totals = Totals("seed", seconds=30.0, acknowledged=RUNS_A_MINUTE // 2, contested=1)
    totals.faults = Counter(kill=FAULTS_A_MINUTE // 2)
    totals.hits = Counter(kill=HITS_A_MINUTE // 2)
    totals.rounds = [recovered(*[4.0] * (RECOVERIES_A_MINUTE // 2))]
    return totals


@pytest.fixture
def proxy(folder: Path) -> Iterator[Proxy]:
    """Before a server that says again what it hears."""
    with echoing(folder / "echo"), Proxy(folder / "echo") as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LONG) as client:
        client.sendall(b"hello")
        assert read(client, 5) == b"hello"
        yield client

"""What a worker has lost is gone: connections that are cut time and again, and a server that is away, leave nothing
behind in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import psutil
import pytest
from django.conf import settings
from django.db import connection

from django_durable.models import Run
from tests.acceptance.traces import new_gate, open_gate, wait_for_success, wait_for_trace
from tests.app import faults, workflows
from tests.processes import FAST, Worker, wait_until
from tests.servers import PostgresServer
from tests.soak.measures import Kind, Measure, Values
from tests.soak.sampling import processes_of, read_process

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables")]

NAME = "cut"
"""By which PostgreSQL and Redis know the worker's connections from ours."""
PLACES = 4
SESSIONS = (6, 7)
"""At rest: claims, commits, heartbeat, notices, two for the housekeeping, and one where a notice had to wait for a
row."""
SPARE = {Kind.FDS: 5, Kind.THREADS: 3}
"""How much more a process may have at the end: that session, connections to Redis, of which there are as many as
threads have used it at once, and the odd thread. One that were left each time that the server restarts, or that Redis
is cut off, would make six."""
ROUNDS = 6


def named() -> dict[str, str]:
    env = {"PGAPPNAME": NAME}
    if settings.QUEUE == "redis":
        url = os.environ["DURABLE_TEST_REDIS_URL"]
        env["DURABLE_TEST_REDIS_URL"] = f"{url}{'&' if '?' in url else '?'}client_name={NAME}"
    return env


def of_its_sessions(what: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {what} FROM pg_stat_activity WHERE application_name = %s", [NAME])
        [(number,)] = cursor.fetchall()
    return int(number)


def cut_connections_to_redis() -> bool:
    """While one of them waits for ids: the worker hears of it at once, and not only when it comes back to them."""
    from django_redis import get_redis_connection

    client = get_redis_connection("default")
    found = [one for one in client.client_list() if one["name"] == NAME]
    if not any("b" in one["flags"] for one in found):
        return False
    for one in found:
        client.client_kill_filter(_id=one["id"])
    return True


def cut_sessions(server: PostgresServer) -> None:
    assert of_its_sessions("count(pg_terminate_backend(pid))") > 0


def cut_everything(server: PostgresServer) -> None:
    if settings.QUEUE == "redis":
        # Which a worker leaves alone for a second after each time.
        wait_until(cut_connections_to_redis, message="the worker to wait for ids again")
    cut_sessions(server)


def restart(server: PostgresServer) -> None:
    server.restart("immediate")
    connection.close()


STRIKES = [restart, cut_sessions, cut_sessions, cut_everything, cut_sessions]


def work_through(strike: Callable[[PostgresServer], None], server: PostgresServer) -> None:
    """One run waits inside a step, others are at steps that write; then one that is new comes to its end."""
    gate = new_gate()
    held = faults.held_inside.enqueue(gate)
    workflows.many_atomic_steps.enqueue(3)
    faults.plodding_async.enqueue(3, 0.005)
    wait_for_trace(held.id, "second")
    strike(server)
    open_gate(gate)
    wait_for_success(held.id, workflows.doubling.enqueue(1).id)


def start_every_thread() -> None:
    gate = new_gate()
    held = [faults.held_inside.enqueue(gate) for _ in range(PLACES)]
    for run in held:
        wait_for_trace(run.id, "second")
    open_gate(gate)


def read_at_rest(processes: Mapping[str, psutil.Process]) -> Values:
    # It uses every session, that for notices too.
    wait_for_success(workflows.parent.enqueue(1).id)
    wait_until(lambda: not Run.objects.live().exists(), message="every run to be over")
    wait_until(lambda: of_its_sessions("count(*)") in SESSIONS, message=f"{SESSIONS} sessions")
    return {
        measure: value
        for name, process in processes.items()
        for measure, value in read_process(process, name).items()
        if measure.kind in SPARE
    }


def grown(before: Values, after: Values) -> dict[Measure, tuple[float, float]]:
    return {one: (was, after[one]) for one, was in before.items() if after[one] > was + SPARE[one.kind]}


def test_what_is_cut_thirty_times_is_there_once(postgres_server: PostgresServer) -> None:
    worker = Worker("--concurrency", str(PLACES), durable={**FAST, "POLL_SECONDS": 0.1}, env=named())
    start_every_thread()
    # Before anything dies: a run that is taken away may get a process of its own for a while.
    processes = processes_of(worker)
    for strike in STRIKES:
        work_through(strike, postgres_server)
    before = read_at_rest(processes)
    assert len(before) == len(processes) * len(SPARE) == 4
    for _ in range(ROUNDS):
        for strike in STRIKES:
            work_through(strike, postgres_server)
    assert grown(before, read_at_rest(processes)) == {}
    # An atomic step that is cut has failed at it, and may by chance do so at each of its attempts.
    blameless = Run.objects.exclude(workflow=workflows.many_atomic_steps.name)
    assert not blameless.exclude(status="succeeded").exists()
    assert worker.stop() == 0

"""Everything through PgBouncer in transaction mode: sessions are lent for a transaction, and nothing stays in them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from django_durable.client.handle import RunHandle
from django_durable.conf import durable_settings
from django_durable.models import Event, Fire, JournalEntry, Run, Schedule
from tests.acceptance.traces import executions, new_gate, open_gate, traces, wait_for_success, wait_for_trace
from tests.app import branching, enumerated, faults, limits, workflows
from tests.app.models import Counter
from tests.invariants import violated
from tests.processes import LASTING, Worker, wait_until
from tests.servers import PostgresServer
from tests.system.pgbouncer import PORT, PgBouncer
from tests.system.workflows import filling, filling_async
from tests.system.working import failed, repeated, start_worker

pytestmark = pytest.mark.django_db(transaction=True)

SIZE = 5
"""Sessions of the server, for some twenty connections of two workers and ours."""
KEPT = ("lock_timeout", "idle_in_transaction_session_timeout", "default_transaction_isolation", "transaction_isolation")
CLEAN = ("0", "0", "read committed", "read committed")
"""What these are where nobody has left anything."""


@pytest.fixture
def bouncer(postgres_server: PostgresServer, folder: Path) -> Iterator[PgBouncer]:
    """Between everybody and the database, this process too."""
    given = dict(connection.settings_dict)
    with PgBouncer(folder, postgres_server, size=SIZE) as bouncer:
        connection.close()
        connection.settings_dict.update(HOST=str(bouncer.folder), PORT=str(PORT), DISABLE_SERVER_SIDE_CURSORS=True)
        yield bouncer
        connection.close()
        connection.settings_dict.update(given)


def worker_behind(bouncer: PgBouncer, *arguments: str, **more: Any) -> Worker:
    env = {"DURABLE_TEST_DATABASE_URL": bouncer.url("postgres"), "DURABLE_TEST_BEHIND_PGBOUNCER": "1"}
    return start_worker(*arguments, env=env, **more)


def sessions(server: PostgresServer) -> int:
    """How many the server has of the test database, asked past the pooler."""
    with psycopg.connect(server.url, autocommit=True) as direct:
        ask = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        [count] = direct.execute(ask, [connection.settings_dict["NAME"]]).fetchone() or [0]
    return int(count)


def clients(bouncer: PgBouncer) -> int:
    """How many connections the pooler has of us all to the test database."""
    with psycopg.connect(bouncer.url("pgbouncer"), autocommit=True, prepare_threshold=None) as console:
        cursor = console.execute("SHOW CLIENTS")
        names = [column.name for column in cursor.description or []]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return sum(row["database"] == connection.settings_dict["NAME"] for row in rows)


def what_the_sessions_keep(bouncer: PgBouncer) -> set[tuple[Any, ...]]:
    """The settings of every session of the server: each is taken by a transaction that stays open."""
    taken: list[psycopg.Connection[Any]] = []
    ask = "SELECT " + ", ".join(f"current_setting('{name}')" for name in KEPT)
    found: set[tuple[Any, ...]] = set()
    try:
        for _ in range(SIZE):
            taken.append(psycopg.connect(bouncer.url(connection.settings_dict["NAME"]), prepare_threshold=None))
            found.add(tuple(taken[-1].execute(ask).fetchone() or ()))
    finally:
        for one in taken:
            one.close()
    return found


def test_every_kind_of_work_goes_through(bouncer: PgBouncer, postgres_server: PostgresServer) -> None:
    assert durable_settings().PREPARED_STATEMENTS is False
    workers = [worker_behind(bouncer, "--concurrency", "16", durable=LASTING) for _ in range(2)]
    plain = [faults.plodding.enqueue(5, 0.01) for _ in range(20)]
    loops = [faults.plodding_async.enqueue(5, 0.01) for _ in range(20)]
    atomic = [faults.counting.enqueue(f"counter {number}") for number in range(20)]
    heard = [faults.knocked.enqueue(3) for _ in range(20)]
    queued = [limits.one_a_tenant.enqueue(tenant, seconds=0.02) for tenant in "ab" for _ in range(6)]
    family = [workflows.parent.enqueue(4), branching.fanning.enqueue(10), workflows.sleepy.enqueue(0.5)]
    keyed = {workflows.doubling.using(idempotency_key="k").enqueue(number=4).id for _ in range(5)}
    for turn in range(3):
        for run in heard:
            run.send_event("knock", turn, idempotency_key=str(turn))
    undone = enumerated.undone.enqueue()
    cancelled, rested = (workflows.listening.enqueue() for _ in range(2))
    # Due now, and then not for long.
    row = {"workflow": workflows.one_step.name, "name": "behind a pooler", "expression": "0 0 1 1 *"}
    Schedule.objects.create(**row, next_fire_at=timezone.now())
    steer(cancelled, rested)

    used: list[tuple[int, int]] = []
    over = Run.objects.filter(status="succeeded")
    every = [run.id for run in (*plain, *loops, *atomic, *heard, *queued, *family, rested)]

    def are_over() -> bool:
        used.append((sessions(postgres_server), clients(bouncer)))
        return over.filter(pk__in=[*every, *keyed]).count() == len(every) + len(keyed)

    wait_until(are_over, message="all runs to succeed")
    most, connected = (max(counts) for counts in zip(*used, strict=True))
    assert most <= SIZE < connected, "else the pooler had nothing to share out"

    assert len(keyed) == 1
    assert [run.result() for run in (*plain, *loops)] == [[0, 2, 4, 6, 8]] * 40
    assert [run.result() for run in heard] == [[0, 1, 2]] * 20
    assert set(Counter.objects.values_list("value", flat=True)) == {1} and Counter.objects.count() == 20
    assert not Event.objects.filter(consumed_at=None).exists()
    for tenant in (queued[:6], queued[6:]):
        assert overlaps([run.id for run in tenant]) == []
    assert rested.result() == ["well", None]
    check_ends(undone, cancelled)
    fired = wait_until(Fire.objects.first, message="the schedule to fire")
    forked = plain[0].fork("plod[3]")
    wait_for_success(fired.run_id, forked.id)
    assert forked.result() == [0, 2, 4, 6, 8] and executions(forked.id) == {"plod[3]": 1, "plod[4]": 1}

    assert repeated(*every) == {}
    assert set(failed()) == {undone.id, cancelled.id} and violated() == []
    prune()
    assert set(Run.objects.values_list("pk", flat=True)) == keyed, "as long as its key is kept"
    assert violated() == []
    assert what_the_sessions_keep(bouncer) == {CLEAN}
    assert [worker.stop() for worker in workers] == [0, 0]


@pytest.mark.parametrize(
    ("setting", "kept"),
    [
        ("lock_timeout = '7s'", ("7s", *CLEAN[1:])),
        ("idle_in_transaction_session_timeout = '7s'", ("0", "7s", *CLEAN[2:])),
        ("default_transaction_isolation = 'serializable'", (*CLEAN[:2], "serializable", "serializable")),
    ],
)
def test_what_somebody_leaves_in_a_session_is_found(bouncer: PgBouncer, setting: str, kept: tuple[str, ...]) -> None:
    """One of the sessions that are lent to others next, by a SET outside of a transaction."""
    assert what_the_sessions_keep(bouncer) == {CLEAN}
    url = bouncer.url(connection.settings_dict["NAME"])
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as careless:
        careless.execute(f"SET {setting}")
    assert what_the_sessions_keep(bouncer) == {CLEAN, kept}


def steer(cancelled: RunHandle[Any], rested: RunHandle[Any]) -> None:
    """As people do, while these two wait for an event."""
    waiting = Run.objects.filter(pk__in=[cancelled.id, rested.id], status="waiting")
    wait_until(lambda: waiting.count() == 2, message="both to wait")
    cancelled.cancel("not wanted")
    rested.pause("tomorrow")
    rested.send_event("packed", "well")
    assert rested.refresh().status == "paused"
    rested.resume("today")


def check_ends(undone: RunHandle[Any], cancelled: RunHandle[Any]) -> None:
    live = Run.objects.filter(pk__in=[undone.id, cancelled.id], finished_at=None)
    wait_until(lambda: not live.exists(), message="their ends")
    assert (undone.refresh().status, cancelled.refresh().status) == ("failed", "cancelled")
    undos = JournalEntry.objects.filter(run_id=undone.id, kind="undo", status="succeeded").order_by("seq")
    assert list(undos.values_list("path", flat=True)) == ["charge%undo", "reserve%undo"]


def prune() -> None:
    """All that is over, however young."""
    newest = Run.objects.latest("finished_at").finished_at
    wait_until(lambda: timezone.now() > newest + timedelta(seconds=1), message="the last to be old enough")
    call_command("durable_prune", "--older-than", "1s", stdout=StringIO())


def overlaps(run_ids: list[UUID]) -> list[Any]:
    """Pairs of runs whose steps were under way at the same time."""
    spans = sorted((traces(run_id)[0].at, traces(run_id, moment="end")[0].at) for run_id in run_ids)
    return [(first, second) for first, second in pairwise(spans) if second[0] < first[1]]


def test_workers_outlive_a_pooler_that_is_killed(bouncer: PgBouncer) -> None:
    gate = new_gate()
    worker = worker_behind(bouncer, "--concurrency", "30", durable=LASTING)
    # Some commit all the time. These do when it is dead, however long it takes to kill it.
    standing = [filling.enqueue(4, 100, gate), filling_async.enqueue(4, 100, gate)]
    runs = [
        *(faults.plodding.enqueue(20, 0.05) for _ in range(10)),
        *(faults.plodding_async.enqueue(20, 0.05) for _ in range(10)),
    ]
    for run in standing:
        wait_for_trace(run.id, "gate")
    wait_until(lambda: JournalEntry.objects.count() > 40, message="the runs to be on their way")
    children = worker.children()
    bouncer.kill()
    open_gate(gate)
    worker.wait_for_log("the database refused a commit")
    bouncer.start()
    connection.close()
    every = [run.id for run in (*runs, *standing)]
    wait_for_success(*every)
    assert worker.children() == children
    assert [run.result() for run in runs] == [[2 * turn for turn in range(20)]] * 20
    assert [run.result() for run in standing] == [4, 4]
    assert repeated(*every) == {}
    assert failed() == [] and violated() == []

"""What PostgreSQL, Redis and the table of runs are asked, and what the client of a soak puts into it."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

import tests.soak
from django_durable.models import Event, IdempotencyKey, Run, Tally
from django_durable.store import pruning
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from django_durable.worker.loops import prune
from tests.admin.world import make_worker
from tests.app.workflows import doubling, failing, parent
from tests.chaos.later import Later
from tests.chaos.programs import BAD, draw
from tests.processes import wait_until
from tests.servers import RedisServer
from tests.soak.apps import SoakConfig
from tests.soak.client import Client, draw_program
from tests.soak.databases import Endings, read_redis, read_runs, read_sessions, read_tables, read_workers
from tests.soak.measures import Kind, Measure
from tests.soak.plan import Plan

pytestmark = pytest.mark.django_db(transaction=True)

ROWS = 40
"""Fewer than autovacuum would come for."""


def in_postgres(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_rows_that_are_deleted_are_dead_rows_of_their_table() -> None:
    in_postgres("SELECT pg_stat_force_next_flush()")
    in_postgres("VACUUM django_durable_tally")
    rows = [Tally(kind="runs", minute=timezone.now(), workflow=f"w{n}", queue="q") for n in range(ROWS)]
    Tally.objects.bulk_create(rows)
    live, dead = Measure(Kind.LIVE_ROWS, "tally"), Measure(Kind.DEAD_ROWS, "tally")
    # Sessions tell of what they did a second later.
    wait_until(lambda: read_tables()[live] == ROWS, message="the live rows")
    found = read_tables()
    assert found[dead] == 0
    assert found[Measure(Kind.TABLE, "tally")] >= 8192
    assert found[Measure(Kind.INDEXES, "tally")] >= 8192
    Tally.objects.all().delete()
    wait_until(lambda: read_tables()[dead] == ROWS, message="the dead rows")
    in_postgres("VACUUM django_durable_tally")
    vacuums = Measure(Kind.VACUUMS, "tally")
    wait_until(lambda: read_tables()[vacuums] > found[vacuums], message="the vacuum to be counted")
    assert read_tables()[dead] == 0


def test_only_the_engines_own_tables_are_read_and_all_of_them() -> None:
    tables = {measure.of for measure in read_tables()}
    assert tables >= {"run", "journalentry", "payload", "event", "worker", "schedule", "idempotencykey", "limit"}
    assert "app_counter" not in tables


def test_sessions_are_counted() -> None:
    sessions = Measure(Kind.CONNECTIONS, "postgres")

    def is_one_more() -> bool:
        before = read_sessions()[sessions]
        with closing(connection.copy()) as another:
            another.connect()
            return read_sessions()[sessions] == before + 1

    # One that was closed before ends when the server comes to it, perhaps in between.
    wait_until(is_one_more, message="a session to be counted")


def test_a_snapshot_is_as_old_as_transactions_have_come_since() -> None:
    snapshot = Measure(Kind.SNAPSHOT, "postgres")
    another = connection.copy()
    with another.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM django_durable_tally")
        for number in range(ROWS):
            Tally.objects.create(kind="runs", minute=timezone.now(), workflow=f"w{number}", queue="q")
        assert read_sessions()[snapshot] >= ROWS
    another.close()
    # The server learns of the end of a session when it next reads from it.
    wait_until(lambda: read_sessions()[snapshot] < ROWS, 10, "the session that was closed keeps its snapshot")


def test_the_worker_that_is_silent_longest_is_read() -> None:
    silence = Measure(Kind.HEARTBEAT, "workers")
    assert read_workers() == {}
    for seconds in (2, 20):
        make_worker(heartbeat_at=timezone.now() - timedelta(seconds=seconds))
    make_worker(heartbeat_at=timezone.now() - timedelta(seconds=200), stopped_at=timezone.now())
    # Neither the one that was heard of after it, nor the one that has stopped.
    assert 20 <= read_workers()[silence] < 200


def test_ids_in_lists_are_counted(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.rpush("durable:{default}:normal", "a", "b")
        client.rpush("durable:{default}:low", "c")
        client.set("durable:other", "no list")
        found = read_redis(client)
        assert found[Measure(Kind.LISTED, "redis")] == 3
        assert found[Measure(Kind.REDIS, "redis")] == pytest.approx(client.info()["used_memory"], rel=0.1)


def test_every_end_is_told_once_with_its_latency_and_who_failed() -> None:
    endings = Endings(lag=0.0)
    doubling.enqueue_many([{"number": number} for number in range(3)])
    failing.enqueue()
    parent.enqueue(1)
    assert read_runs(endings)[Measure(Kind.LIVE_RUNS, "runs")] == 5
    run_until_idle()
    ended = endings.read()
    # The parent has had two children.
    assert Run.objects.count() == 7
    assert (ended.runs, ended.failed) == (5, 1)
    assert ended.rate == pytest.approx(ended.runs / ended.seconds)
    succeeded = Run.objects.filter(parent=None, status="succeeded")
    slowest = max(run.finished_at - run.created_at for run in succeeded if run.finished_at)
    assert ended.latency is not None
    assert 0 < ended.latency[0] <= ended.latency[1] <= slowest.total_seconds()
    again = endings.read()
    assert (again.runs, again.failed, again.latency) == (0, 0, None)
    assert Measure(Kind.P50, "runs") not in read_runs(endings)


def test_the_client_starts_what_it_says_and_what_follows_comes_later() -> None:
    later = Later(again=0.1)
    client = Client("seed", later)
    while client.started < 60:
        client.start_some()
    assert Run.objects.count() == client.started
    assert set(Run.objects.values_list("workflow", flat=True)) >= {"chaos.interpret", "chaos.interpret_async"}
    assert IdempotencyKey.objects.exists()
    assert not Event.objects.exists()
    later.close()
    later.work()
    assert Event.objects.exists()
    assert set(Run.objects.values_list("status", flat=True)) == {"queued", "cancelled"}


def test_its_programs_are_those_of_chaos_without_what_kills_and_fails() -> None:
    def kinds(make: object) -> set[str]:
        chance = random.Random("seed")
        assert callable(make)
        return {node[0] for _ in range(5_000) for node in make(chance)}

    assert kinds(draw) - kinds(draw_program) == {"poison", BAD}


def test_what_an_hour_deletes_it_deletes_all_the_time(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else would notice if the engine's loop had its rest from elsewhere: the hour would delete nothing."""
    for module, name in ((prune, "BETWEEN_WALKS"), (pruning, "TALLIED")):
        monkeypatch.setattr(module, name, getattr(module, name))
    settings.DURABLE = {**settings.DURABLE, **Plan(3600).durable}
    walk = prune.Prune(Database())
    assert walk.interval == 3600
    SoakConfig("tests.soak", tests.soak).ready()
    assert walk.interval == 10
    now = timezone.now()
    for minutes in (5, 20):
        Tally.objects.create(kind="runs", minute=now - timedelta(minutes=minutes), workflow="w", queue="q")
    walk.tick()
    assert [tally.minute for tally in Tally.objects.all()] == [now - timedelta(minutes=5)]

"""What is asked beside the workers sees what it asks for."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.db.utils import OperationalError
from django_redis import get_redis_connection

from django_durable.models import Worker
from django_durable.store.database import PrivateDatabase
from tests import processes
from tests.app.models import Counter
from tests.app.workflows import doubling
from tests.chaos import afterwards
from tests.chaos.afterwards import ServerLog, silent, violated
from tests.processes import FAST, PATIENCE, wait_until
from tests.servers import PostgresServer

HEARTBEAT = FAST["HEARTBEAT_SECONDS"]
PID, OTHER_PID = 101, 102
JUST_NOW = -60.0
"""Seconds since a heartbeat that stays young, however slow the machine is."""


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_found_in_the_server_s_log(postgres_server: PostgresServer) -> None:
    first, second = (Counter.objects.create(name=name) for name in ("first", "second"))
    log = ServerLog(postgres_server.log)
    assert list(log.deadlocks()) == []
    both_hold_one = threading.Barrier(2)
    refused = []

    def take(one: Counter, other: Counter) -> None:
        try:
            with transaction.atomic():
                Counter.objects.select_for_update().get(pk=one.pk)
                both_hold_one.wait(10)
                Counter.objects.select_for_update().get(pk=other.pk)
        except OperationalError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=take, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 1
    assert len(list(log.deadlocks())) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("redis_server")
def test_what_is_no_run_in_a_list_is_found() -> None:
    assert list(violated()) == []
    get_redis_connection("default").rpush("durable:{default}:normal", "no run")
    assert any("I21" in text for text in violated())


IDLE, WAITS = "is idle in a transaction", "waits for a lock"


def held_up() -> list[str]:
    """What those do who are found to hold up others."""
    return sorted(re.findall(f"L6: .*({IDLE}|{WAITS})", "\n".join(violated())))


@pytest.mark.django_db(transaction=True)
def test_who_holds_a_lock_and_does_nothing_is_found_and_so_is_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = doubling.enqueue(1)
    lock = "SELECT id FROM django_durable_run WHERE id = %(id)s FOR UPDATE"
    with closing(PrivateDatabase()) as holder, closing(PrivateDatabase()) as waiter:
        waiting = threading.Thread(target=waiter.rows, args=[lock], kwargs={"id": run.id})
        with holder.transaction():
            holder.rows(lock, id=run.id)
            waiting.start()
            monkeypatch.setattr(afterwards, "HELD_UP", PATIENCE)
            assert list(violated()) == []
            monkeypatch.setattr(afterwards, "HELD_UP", 0.2)
            wait_until(lambda: held_up() == [IDLE, WAITS], message="both to be found")
        waiting.join()
    assert list(violated()) == []


def heard_of(pid: int, seconds: float, *, stopped: bool = False) -> None:
    """A worker that said so long ago that it lives."""
    Worker.objects.create(
        id=uuid4(),
        host="here",
        pid=pid,
        concurrency=1,
        started_at=Now() - timedelta(minutes=1),
        heartbeat_at=Now() - timedelta(seconds=seconds),
        stopped_at=Now() if stopped else None,
    )


@pytest.mark.django_db
def test_a_worker_that_is_there_and_silent_is_found() -> None:
    heard_of(PID, JUST_NOW)
    heard_of(OTHER_PID, JUST_NOW)
    assert list(silent({0: [PID], 1: [OTHER_PID]})) == []
    Worker.objects.filter(pid=OTHER_PID).update(heartbeat_at=Now() - timedelta(seconds=2 * HEARTBEAT + 0.1))
    [text] = silent({0: [PID], 1: [OTHER_PID]})
    assert f"process {OTHER_PID} at place 1 was last heard of" in text
    [text] = silent({0: [PID, OTHER_PID]})
    assert f"process {OTHER_PID} at place 0" in text


@pytest.mark.django_db
def test_who_is_dead_may_be_silent() -> None:
    heard_of(PID, JUST_NOW)
    heard_of(PID, 3600.0)
    heard_of(OTHER_PID, 3600.0)
    assert list(silent({0: [PID]})) == []


@pytest.mark.django_db
def test_who_has_ended_may_be_silent_where_somebody_goes_on() -> None:
    heard_of(PID, JUST_NOW)
    heard_of(OTHER_PID, 3600.0, stopped=True)
    assert list(silent({0: [PID, OTHER_PID]})) == []
    [text] = silent({0: [PID], 1: [OTHER_PID]})
    assert "at place 1 none says that it is there" in text


@pytest.mark.django_db(transaction=True)
def test_a_real_worker_is_heard_of_until_it_freezes() -> None:
    worker = processes.Worker()
    worker.wait_for_start()
    places = {0: worker.children()}
    assert places[0]
    wait_until(lambda: not list(silent(places)), message="its first heartbeat")
    worker.freeze()
    wait_until(lambda: list(silent(places)), message="its silence")
    worker.thaw()
    wait_until(lambda: not list(silent(places)), message="its heartbeat")

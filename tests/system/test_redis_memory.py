"""A Redis that is full: it refuses ids, or throws lists away. Runs start from the database, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from django_durable.queues.current import current_queue
from django_durable.queues.redis import PUSH_SECONDS
from tests.acceptance.traces import wait_for_success
from tests.app import faults
from tests.invariants import violated
from tests.processes import wait_until
from tests.servers import RedisServer
from tests.system.working import failed, repeated, start_worker

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "durable:{default}:normal"
JUNK = b"x" * 10_000
MANY = 60


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis_server.client() as client:
        yield client
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_resetstat()
        client.flushall()


def test_ids_that_a_full_redis_refuses_are_found_in_the_database(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    worker = start_worker()
    worker.wait_for_start()
    client.config_set("maxmemory", "1mb")
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        for number in range(1000):
            client.set(f"junk:{number}", JUNK)

    during = []

    def refuse_an_id() -> bool:
        # Not that of the first runs: a reply is looked at when others are sent, and not for each of them.
        during.append(faults.plodding.enqueue(3, 0))
        return "redis is out of reach" in caplog.text

    wait_until(refuse_an_id, message="a reply to be looked at")
    began = time.monotonic()
    during += [faults.plodding.enqueue(3, 0) for _ in range(MANY)]
    # Not each of them waits for Redis.
    assert time.monotonic() - began < MANY * PUSH_SECONDS / 2
    wait_for_success(*(run.id for run in during))

    client.config_set("maxmemory", 0)
    wait_until(lambda: current_queue().gives_hints, message="Redis to be tried again")
    after = [faults.plodding.enqueue(3, 0)]
    assert "redis is back" in caplog.text
    wait_for_success(*(run.id for run in after))
    assert repeated(*(run.id for run in (*during, *after))) == {}
    assert failed() == [] and violated() == []
    assert "Traceback" not in worker.log
    assert worker.stop() == 0


def test_lists_that_a_full_redis_throws_away_are_written_again(client: Any) -> None:
    runs = [faults.plodding.enqueue(3, 0) for _ in range(200)]
    wait_until(lambda: client.llen(LIST) == len(runs), message="the ids to be in the list")
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + 200_000)

    def throw_away() -> bool:
        client.set(f"junk:{time.monotonic_ns()}", JUNK)
        return not client.exists(LIST)

    wait_until(throw_away, message="Redis to evict the list")
    assert client.info("stats")["evicted_keys"] > 0
    worker = start_worker()
    wait_for_success(*(run.id for run in runs))
    assert repeated(*(run.id for run in runs)) == {}
    assert failed() == [] and violated() == []
    assert worker.stop() == 0

"""A Redis that is full: it refuses ids, or throws lists away. Runs start from the database, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import redis

from django_durable.queues.current import current_queue
from django_durable.queues.redis import BREAK_SECONDS, RedisQueue
from django_durable.queues.unawaited import Unawaited
from tests.acceptance.traces import wait_for_success
from tests.app import faults
from tests.invariants import violated
from tests.processes import LASTING, wait_until
from tests.servers import RedisServer
from tests.system.working import failed, repeated, start_worker

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "durable:{default}:normal"
JUNK = b"x" * 10_000
MANY = 60


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When this process sent something."""
    moments: list[float] = []
    sender = RedisQueue._sender

    def noted(queue: RedisQueue) -> Unawaited:
        moments.append(time.monotonic())
        return sender(queue)

    monkeypatch.setattr(RedisQueue, "_sender", noted)
    return moments


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis_server.client() as client:
        yield client
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_resetstat()
        client.flushall()


def test_ids_that_a_full_redis_refuses_are_found_in_the_database(
    client: Any, caplog: pytest.LogCaptureFixture, sent: list[float]
) -> None:
    worker = start_worker(durable=LASTING)
    worker.wait_for_start()
    client.config_set("maxmemory", "1mb")
    with pytest.raises(redis.exceptions.OutOfMemoryError):
        for number in range(1000):
            client.set(f"junk:{number}", JUNK)
    # Nor is there room where a client goes, whose buffers count too.
    client.config_set("maxmemory", client.info("memory")["used_memory"] // 2)

    during = []

    def refuse_an_id() -> bool:
        # Not that of the first runs: a reply is looked at when others are sent, and not for each of them.
        during.append(faults.plodding.enqueue(3, 0))
        return "redis is out of reach" in caplog.text

    wait_until(refuse_an_id, message="a reply to be looked at")
    refused = sent[-1:]
    sent.clear()
    during += [faults.plodding.enqueue(3, 0) for _ in range(MANY)]
    # Not each of them waits for Redis.
    assert all(later - one >= BREAK_SECONDS for one, later in pairwise(refused + sent))
    wait_for_success(*(run.id for run in during))

    client.config_set("maxmemory", 0)
    after = []

    def send_an_id() -> bool:
        # Not each of them is taken in time by a Redis that waits for a core.
        if current_queue().gives_hints:
            after.append(faults.plodding.enqueue(3, 0))
        return "redis is back" in caplog.text

    wait_until(send_an_id, message="Redis to be back")
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
    worker = start_worker(durable=LASTING)
    wait_for_success(*(run.id for run in runs))
    assert repeated(*(run.id for run in runs)) == {}
    assert failed() == [] and violated() == []
    assert worker.stop() == 0

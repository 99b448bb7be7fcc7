"""What `durable_worker` says of Redis when it starts: that it may throw the queue away, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django_redis import get_redis_connection

from django_durable.queues.eviction import warn_of_eviction
from tests.processes import Worker, wait_until
from tests.servers import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
WARNING = "WARNING django_durable.queues redis evicts keys when its memory is full (maxmemory-policy allkeys-lru)"


@pytest.fixture
def evicting(redis_server: RedisServer) -> Iterator[Any]:
    """A client of the Redis of the queue, which may throw it away; it may not afterwards."""
    client = get_redis_connection("default")
    client.config_set("maxmemory-policy", "allkeys-lru")
    yield client
    client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.usefixtures("evicting")
def test_a_redis_that_evicts_is_told_of_once_however_many_processes_there_are() -> None:
    worker = Worker("--processes", "2")
    worker.wait_for_log(WARNING)
    wait_until(lambda: worker.starts == 2, message="both processes")
    assert worker.stop() == 0
    assert worker.log.count("maxmemory-policy") == 1
    assert "Traceback" not in worker.log


@pytest.mark.usefixtures("redis_server")
def test_a_redis_that_does_not_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_eviction()
    assert "evicts" not in caplog.text


def test_a_redis_that_does_not_answer_is_left_to_the_processes(
    caplog: pytest.LogCaptureFixture, redis_server: RedisServer
) -> None:
    redis_server.stop()
    warn_of_eviction()
    assert "evicts" not in caplog.text


def test_its_connection_is_closed(evicting: Any) -> None:
    before = len(evicting.client_list())
    warn_of_eviction()
    wait_until(lambda: len(evicting.client_list()) <= before, message="the connection to be gone")

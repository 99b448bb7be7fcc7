"""The queue behind a real Sentinel, as docs/scaling.md sets it up."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from django.conf import settings
from django.test import override_settings

from django_durable.core.ids import uuid7
from django_durable.queues.ready import Ready
from django_durable.queues.redis import RedisQueue
from tests.processes import wait_until
from tests.servers.guarded import Guarded
from tests.servers.redis import RedisServer, binary

pytestmark = pytest.mark.usefixtures("patient")

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[set[int]]:
    """Of a primary and of the Sentinel that watches it, and that the alias ``watched`` asks."""
    primary, sentinel = free_port(), free_port()
    written = tmp_path / "sentinel.conf"
    written.write_text(
        f"port {sentinel}\nbind {LOOPBACK}\ndir {tmp_path}\nsentinel monitor mymaster {LOOPBACK} {primary} 1\n"
    )
    watched = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": "redis://mymaster/0",
        "OPTIONS": {
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SENTINELS": [(LOOPBACK, sentinel)],
        },
    }

    def is_watching() -> Any:
        try:
            with redis.Redis(host=LOOPBACK, port=sentinel) as client:
                return client.sentinel_masters()
        except redis.ConnectionError:
            return None

    with RedisServer(tmp_path, port=str(primary), bind=LOOPBACK):
        process = Guarded([binary(), str(written), "--sentinel"], log=tmp_path / "sentinel.log", ending=signal.SIGKILL)
        try:
            wait_until(is_watching, message="Sentinel to know of the primary")
            with override_settings(CACHES={**settings.CACHES, "watched": watched}):
                yield {primary, sentinel}
        finally:
            process.kill()


def connected(ports: set[int]) -> set[int]:
    found = psutil.Process().net_connections(kind="tcp")
    return {each.raddr.port for each in found if each.raddr and each.status == psutil.CONN_ESTABLISHED} & ports


def test_ids_go_through_and_once_it_is_closed_no_connection_is_left(ports: set[int]) -> None:
    queue, run = RedisQueue("watched", "durable"), Ready(uuid7(), "mine", 0)
    queue.push([run])
    assert queue.pop(["mine"], 1, 1) == [run.id]
    assert connected(ports) == ports
    queue.close()
    assert connected(ports) == set()

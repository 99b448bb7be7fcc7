"""Redis, where it holds the queue: does it answer, and may it throw the queue away."""

from __future__ import annotations

import time
from typing import Any

from ....conf import durable_settings
from ....queues.current import queue_kind
from .section import Section


def examine_redis(section: Section) -> None:
    if queue_kind() != "redis":
        section.facts = {"used": False}
        return
    from django_redis import get_redis_connection

    client: Any = get_redis_connection(durable_settings().REDIS_CACHE)
    client.ping()
    begun = time.perf_counter()
    client.ping()
    ping = time.perf_counter() - begun
    info = client.info()
    policy = info.get("maxmemory_policy", "unknown")
    section.facts = {
        "used": True,
        "cache": durable_settings().REDIS_CACHE,
        "version": info.get("redis_version"),
        "ping_ms": round(ping * 1000, 3),
        "maxmemory_policy": policy,
        "used_memory_bytes": info.get("used_memory"),
    }
    if policy not in ("noeviction", "unknown"):
        section.notes.append(
            f"Redis evicts keys when its memory is full ({policy}): no run is lost, but runs start late. "
            "Set maxmemory-policy to noeviction."
        )

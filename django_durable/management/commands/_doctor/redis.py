"""Redis, where it holds the queue: does it answer, and may it throw the queue away."""

from __future__ import annotations

from contextlib import closing

from ....conf import durable_settings
from ....queues.current import queue_kind, redis_queue
from .section import Section


def examine_redis(section: Section) -> None:
    if queue_kind() != "redis":
        section.facts = {"used": False}
        return
    with closing(redis_queue()) as queue:
        health = queue.health()
    section.facts = {
        "used": True,
        "cache": durable_settings().REDIS_CACHE,
        "version": health.version,
        "ping_ms": round(health.ping * 1000, 3),
        "maxmemory_policy": health.policy or "unknown",
        "used_memory_bytes": health.used_memory,
    }
    if health.may_evict:
        section.notes.append(
            f"Redis evicts keys when its memory is full ({health.policy}): no run is lost, but runs start late. "
            "Set maxmemory-policy to noeviction."
        )

"""A Redis that may throw the queue away: who runs a worker hears of it."""

from __future__ import annotations

import logging
from contextlib import closing

from ..core.payloads.surviving import warn
from .current import redis_queue

logger = logging.getLogger("django_durable.queues")


def warn_of_eviction() -> None:
    """Say it in the log where Redis may throw the queue away: now somebody reads that."""
    try:
        with closing(redis_queue()) as queue:
            health = queue.health()
    except Exception:
        # The processes, which need it, tell of what is wrong with it.
        return
    if health.may_evict:
        warn(
            logger,
            "redis evicts keys when its memory is full (maxmemory-policy %s): no run is lost, but runs start late; "
            "it should be noeviction",
            health.policy,
        )

"""The queue that the settings name, one for each process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from ..conf import durable_settings
from .base import Queue
from .database import DatabaseQueue

if TYPE_CHECKING:
    from .redis import RedisQueue

DJANGO_REDIS = "django_redis.cache.RedisCache"


def queue_kind() -> str:
    """``redis`` or ``database``: as set, else redis where ``REDIS_CACHE`` names a django-redis alias."""
    settings = durable_settings()
    if settings.QUEUE is not None:
        return settings.QUEUE
    backend = django_settings.CACHES.get(settings.REDIS_CACHE, {}).get("BACKEND", "")
    return "redis" if backend == DJANGO_REDIS else "database"


@cache
def current_queue() -> Queue:
    """The queue of this process. Built at first use, again after its settings were changed (in tests)."""
    if queue_kind() == "redis":
        return redis_queue()
    return DatabaseQueue()


def let_go() -> None:
    """Close what the queue of this process has connected; it is built again at its next use."""
    if current_queue.cache_info().currsize:
        current_queue().close()
        current_queue.cache_clear()


def redis_queue() -> RedisQueue:
    """One more, of whoever asks and has to close it: at the cache and under the prefix that are set."""
    # Here, because with the database queue no Redis client need be installed.
    from .redis import RedisQueue

    settings = durable_settings()
    return RedisQueue(settings.REDIS_CACHE, settings.KEY_PREFIX)


def _forget(*, setting: str, **_: object) -> None:
    if setting in ("DURABLE", "CACHES"):
        current_queue.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_durable.queues")

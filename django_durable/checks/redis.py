"""The cache alias behind the Redis queue. None of these checks opens a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings as django_settings
from django.core.checks import register
from django.utils.module_loading import import_string

from ..queues.current import DJANGO_REDIS
from .messages import TAG, Messages, error, warning
from .reading import sound_settings, written

SHARDED = "django_redis.client.ShardClient"


def redis_cache() -> Mapping[str, Any] | None:
    """The cache alias that the Redis queue uses, or should; None with the database queue."""
    settings = sound_settings()
    cache = django_settings.CACHES.get(settings.REDIS_CACHE, {})
    if settings.QUEUE == "redis" or (settings.QUEUE is None and cache.get("BACKEND") == DJANGO_REDIS):
        return cache
    return None


@register(TAG)
def check_alias(**_: Any) -> Messages:
    alias, cache = sound_settings().REDIS_CACHE, redis_cache()
    if cache is None:
        return []
    if alias not in django_settings.CACHES:
        return [
            error(
                20,
                f"DURABLE['QUEUE'] is 'redis', and CACHES has no alias {alias!r} (DURABLE['REDIS_CACHE']).",
                f'Add CACHES[{alias!r}] with the backend {DJANGO_REDIS}, or set QUEUE = "database".',
            )
        ]
    if not _is_a(cache.get("BACKEND"), DJANGO_REDIS):
        return [
            error(
                21,
                f"DURABLE['QUEUE'] is 'redis', and the cache {alias!r} is {cache.get('BACKEND')}, not django-redis.",
                f'Give it the backend {DJANGO_REDIS}, name another alias as REDIS_CACHE, or set QUEUE = "database".',
            )
        ]
    return []


@register(TAG)
def check_client(**_: Any) -> Messages:
    cache = redis_cache()
    if cache is None or not _is_a((cache.get("OPTIONS") or {}).get("CLIENT_CLASS"), SHARDED):
        return []
    return [
        error(
            22,
            f"The cache {sound_settings().REDIS_CACHE!r} is sharded (ShardClient): it has no one Redis for a list.",
            "Name an alias with the default or the Sentinel client as DURABLE['REDIS_CACHE'].",
        )
    ]


@register(TAG)
def check_shared(**_: Any) -> Messages:
    alias, cache = sound_settings().REDIS_CACHE, redis_cache()
    if not cache:
        return []
    ours = places(cache)
    others = sorted(name for name, other in django_settings.CACHES.items() if name != alias and ours & places(other))
    if not others:
        return []
    shown = ", ".join(map(repr, others))
    return [
        warning(
            4,
            f"The cache {alias!r}, which holds the queue, and {shown} are the same Redis database: clear() on a cache "
            "is FLUSHDB and empties the queue (nothing is lost, but runs start late), and django-redis gives both the "
            "connection options of whichever came first.",
            f"Give the cache {alias!r} a database number of its own in its LOCATION.",
        )
    ]


@register(TAG)
def check_named(**_: Any) -> Messages:
    settings, cache = sound_settings(), redis_cache()
    if not cache or settings.QUEUE is not None or "REDIS_CACHE" in written():
        return []
    return [
        warning(
            5,
            f"The queue is in the Redis of the cache {settings.REDIS_CACHE!r}, since that is django-redis and DURABLE "
            "names neither a queue nor a cache: cache.clear() empties it (nothing is lost, but runs start late).",
            'Add an alias with a database number of its own to CACHES and name it as DURABLE["REDIS_CACHE"]; '
            'or say DURABLE = {"QUEUE": "database"}, or "redis" if it is to stay there.',
        )
    ]


def places(cache: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The Redis databases that a cache's LOCATION names, each as server and number, however it is spelt."""
    location = cache.get("LOCATION") or ()
    urls = location.split(",") if isinstance(location, str) else location
    return {_place(url.strip()) for url in urls if _is_redis_url(url)}


def _is_redis_url(url: object) -> bool:
    return isinstance(url, str) and url.strip().startswith(("redis://", "rediss://", "unix://"))


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    number = parse_qs(parts.query).get("db", [""])[0]
    if parts.scheme == "unix":
        return parts.path, number or "0"
    server = parts.netloc.rpartition("@")[2].lower() or "localhost"
    return (server if ":" in server else f"{server}:6379"), number or parts.path.strip("/") or "0"


def _is_a(found: object, wanted: str) -> bool:
    """Whether a dotted path (or class) is the wanted class or made from it; what cannot be imported is not."""
    if found == wanted:
        return True
    try:
        cls = import_string(found) if isinstance(found, str) else found
    except ImportError:
        return False
    return isinstance(cls, type) and issubclass(cls, import_string(wanted))

"""``manage.py check --deploy``: what is fine on a desk and is not where others rely on it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.checks import register

from .databases import durable_connection
from .messages import TAG, Messages, warning
from .reading import sound_settings
from .redis import redis_cache


@register(TAG, deploy=True)
def check_debug(**_: Any) -> Messages:
    if not django_settings.DEBUG:
        return []
    return [
        warning(
            10,
            "DEBUG is True: a worker keeps thousands of its SQL statements in memory, with the values in them.",
            "Set DEBUG = False where durable_worker runs for long.",
        )
    ]


@register(TAG, deploy=True)
def check_sqlite(**_: Any) -> Messages:
    connection = durable_connection()
    if connection is None or connection.vendor != "sqlite":
        return []
    return [
        warning(
            11,
            f"Runs are kept in the SQLite database {connection.alias!r}: one writer at a time, and workers on one "
            "machine only.",
            "Fine for an appliance or a small site; use PostgreSQL where throughput or a second machine matters.",
        )
    ]


@register(TAG, deploy=True)
def check_password(**_: Any) -> Messages:
    cache = redis_cache()
    if not cache or (cache.get("OPTIONS") or {}).get("PASSWORD"):
        return []
    location = cache.get("LOCATION") or ()
    urls = location.split(",") if isinstance(location, str) else location
    if not any(_is_open(url.strip()) for url in urls if isinstance(url, str)):
        return []
    return [
        warning(
            12,
            f"The Redis of the cache {sound_settings().REDIS_CACHE!r} is reached over the network without a password.",
            "Put user and password into LOCATION, or OPTIONS['PASSWORD']; the queue needs list commands on its "
            "KEY_PREFIX only.",
        )
    ]


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("redis", "rediss") and not parts.password

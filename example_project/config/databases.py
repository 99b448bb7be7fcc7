"""Databases and caches from URLs, so that one environment variable moves the shop to PostgreSQL or Redis."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def database(url: str | None, folder: Path) -> dict[str, Any]:
    """``postgres://user:password@host:port/name?option=value``, or without a URL a SQLite file in ``folder``."""
    return _postgresql(url) if url else _sqlite(folder / "db.sqlite3")


def cache(url: str | None) -> dict[str, Any]:
    """``redis://…`` through django-redis, or without a URL a cache in each process's memory."""
    if not url:
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}


def _sqlite(path: Path) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            # Take the write lock at BEGIN: a transaction that reads first and writes later could only fail.
            "transaction_mode": "IMMEDIATE",
            # Several processes write to this file; each waits its turn for so long. Must exceed a lease.
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
        # The test client's requests and the tests themselves share one connection.
        "TEST": {"NAME": ":memory:"},
    }


def _postgresql(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"DATABASE_URL must start with postgres://, not {parts.scheme}://")
    options = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        # A socket's folder does not fit into the host part of a URL: ?host=/run/postgresql
        "HOST": options.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
    }

"""The one settings dict: ``DURABLE = {...}``. Typed defaults here, read at use, checked in ``checks``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed


@dataclass(frozen=True)
class Settings:
    """Each field is a key of ``DURABLE``; times are seconds and may be floats, sizes are bytes."""

    QUEUE: str | None = None
    """``"redis"``, ``"database"`` or None: redis where ``REDIS_CACHE`` names a django-redis alias."""
    REDIS_CACHE: str = "default"
    DATABASE: str = "default"
    KEY_PREFIX: str = "durable"
    LEASE_SECONDS: float = 30
    HEARTBEAT_SECONDS: float = 10
    REAP_SECONDS: float = 5
    POLL_SECONDS: float = 1
    SHUTDOWN_GRACE_SECONDS: float = 25
    MAX_CRASHES: int = 3
    RETENTION_DAYS: float = 30
    MAX_PAYLOAD_BYTES: int = 8 * 1024 * 1024
    WARN_PAYLOAD_BYTES: int = 1024 * 1024
    MAX_OPEN_EVENTS: int = 1_000
    """How many events a run may have that it has not taken yet."""
    MAX_OPEN_EVENT_BYTES: int = 16 * 1024 * 1024
    JOURNAL_WARN_ENTRIES: int = 2_000
    JOURNAL_MAX_ENTRIES: int = 50_000
    LOG_LINES: int = 1_000
    """How many lines of ``ctx.log`` are kept of a run: the newest. 0: none."""
    PREPARED_STATEMENTS: bool = False
    """Prepare the engine's statements on its own connections, and those of ``enqueue()`` and ``result()`` on Django's;
    leave off behind PgBouncer before 1.22."""
    VERSION: str | None = None
    """Fingerprint of the deployed code; None: a hash of each workflow's module."""
    REDACT: str | None = None
    """Dotted path of what the admin asks before it shows a value: ``(run, kind, value)`` → what is shown instead."""
    ADMIN_START: bool = False
    """Let people with the permission ``start_run`` start runs by hand in the admin."""
    MAY_WATCH: str | None = None
    """Dotted path of what ``django_durable.urls`` asks whether somebody may watch a run: ``(user, run)`` → True."""

    @cached_property
    def lease_margin(self) -> float:
        """How many seconds before the end of its lease a run begins nothing new, and SQLite's atomic steps give up.

        Who cannot renew a lease must be done before others may take the run, and what begins takes its time. Who
        renews in time never gets there, nor does who misses one beat of three; where beats are further apart than the
        checks allow, it is at most half of what is left when one is due.
        """
        left_by_a_beat = max(self.LEASE_SECONDS - self.HEARTBEAT_SECONDS, 0.0)
        return min(self.LEASE_SECONDS * 0.2, 5.0, left_by_a_beat / 2)


KNOWN_KEYS = frozenset(field.name for field in fields(Settings))


@cache
def _read() -> Settings:
    configured: dict[str, Any] = getattr(django_settings, "DURABLE", {})
    return Settings(**{key: value for key, value in configured.items() if key in KNOWN_KEYS})


def durable_settings() -> Settings:
    """The settings in force; a change through ``override_settings`` is seen at once."""
    return _read()


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DURABLE":
        _read.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_durable.conf")

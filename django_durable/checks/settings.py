"""``DURABLE``: its keys, and the values of each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, register
from django.utils.module_loading import import_string

from ..conf import KNOWN_KEYS
from ..core.journal.log import LINES_MAX
from .messages import TAG, Messages, error
from .reading import all_keys, expected, has_right_type, sound_settings, written

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_ABOVE_ZERO = (
    "LEASE_SECONDS",
    "HEARTBEAT_SECONDS",
    "REAP_SECONDS",
    "POLL_SECONDS",
    "RETENTION_DAYS",
)
_WHOLE_FROM_ONE = (
    "MAX_CRASHES",
    "MAX_PAYLOAD_BYTES",
    "WARN_PAYLOAD_BYTES",
    "MAX_OPEN_EVENTS",
    "JOURNAL_WARN_ENTRIES",
    "JOURNAL_MAX_ENTRIES",
)
MAX_CRASHES_MOST = 32_767
"""What the column that counts them can hold."""
VERSION_MAX = 64
BEATS_IN_A_LEASE = 3


@register(TAG)
def check_keys(**_: Any) -> Messages:
    found = getattr(django_settings, "DURABLE", {})
    if not isinstance(found, Mapping):
        return [
            error(
                1,
                f"The setting DURABLE is {_shown(found)}, not a dict.",
                'Write DURABLE = {"LEASE_SECONDS": 30}, for instance, or leave it out: every key is optional.',
            )
        ]
    return [_unknown(key) for key in found if key not in KNOWN_KEYS]


def _unknown(key: object) -> CheckMessage:
    close = difflib.get_close_matches(str(key).upper(), all_keys(), n=1)
    meant = f"Did you mean {close[0]!r}?" if close else f"There are {', '.join(all_keys())}."
    return error(2, f"DURABLE has no key {key!r}.", meant)


@register(TAG)
def check_types(**_: Any) -> Messages:
    return [
        error(3, f"DURABLE[{key!r}] is {_shown(value)}.", f"It takes {expected(key)}.")
        for key, value in written().items()
        if key in KNOWN_KEYS and not has_right_type(key, value)
    ]


@register(TAG)
def check_ranges(**_: Any) -> Messages:
    return [error(4, f"DURABLE[{key!r}] is {getattr(sound_settings(), key)!r}.", hint) for key, hint in _out_of_range()]


def _out_of_range() -> Iterator[tuple[str, str]]:
    settings = sound_settings()
    for key in _ABOVE_ZERO:
        if not getattr(settings, key) > 0:
            yield key, "It must be more than 0."
    for key in _WHOLE_FROM_ONE:
        if getattr(settings, key) < 1:
            yield key, "It must be at least 1."
    if settings.SHUTDOWN_GRACE_SECONDS < 0:
        yield "SHUTDOWN_GRACE_SECONDS", "It must be 0 or more."
    if settings.LOG_LINES != 0 and settings.LOG_LINES < LINES_MAX:
        # One commit may bring so many. Where some of them are gone at once, a replay says them again.
        yield "LOG_LINES", f"It must be 0, or at least {LINES_MAX}."
    if settings.JOURNAL_WARN_ENTRIES > settings.JOURNAL_MAX_ENTRIES:
        yield "JOURNAL_WARN_ENTRIES", "It must be at most JOURNAL_MAX_ENTRIES: the warning would come after the error."
    if settings.MAX_OPEN_EVENT_BYTES < settings.MAX_PAYLOAD_BYTES:
        yield "MAX_OPEN_EVENT_BYTES", "It must be at least MAX_PAYLOAD_BYTES: the largest event could never be sent."
    if settings.MAX_CRASHES > MAX_CRASHES_MOST:
        yield "MAX_CRASHES", f"It must be at most {MAX_CRASHES_MOST:,}."
    if settings.VERSION is not None and not 0 < len(settings.VERSION) <= VERSION_MAX:
        yield "VERSION", f"It must have 1 to {VERSION_MAX} characters, or be None."


@register(TAG)
def check_lease(**_: Any) -> Messages:
    settings = sound_settings()
    lease, beat = settings.LEASE_SECONDS, settings.HEARTBEAT_SECONDS
    if lease >= BEATS_IN_A_LEASE * beat:
        return []
    return [
        error(
            5,
            f"A lease of {lease:g} s (LEASE_SECONDS) leaves no room for {BEATS_IN_A_LEASE} heartbeats of {beat:g} s "
            "(HEARTBEAT_SECONDS): one late heartbeat would give runs away that are being worked on.",
            f"Set HEARTBEAT_SECONDS to at most {lease / BEATS_IN_A_LEASE:g}, "
            f"or LEASE_SECONDS to at least {BEATS_IN_A_LEASE * beat:g}.",
        )
    ]


@register(TAG)
def check_queue(**_: Any) -> Messages:
    queue = sound_settings().QUEUE
    if queue in (None, "redis", "database"):
        return []
    return [
        error(
            6,
            f"DURABLE['QUEUE'] is {queue!r}.",
            'It is "redis", "database", or None: redis where REDIS_CACHE names a django-redis alias.',
        )
    ]


@register(TAG)
def check_prefix(**_: Any) -> Messages:
    prefix = sound_settings().KEY_PREFIX
    if _PREFIX.fullmatch(prefix):
        return []
    return [
        error(
            7,
            f"DURABLE['KEY_PREFIX'] is {_shown(prefix)}, which cannot begin a Redis key.",
            "Take 1 to 100 letters, digits, dots, colons, dashes or underscores; braces would move the keys of a "
            "queue to another cluster slot.",
        )
    ]


@register(TAG)
def check_sizes(**_: Any) -> Messages:
    settings = sound_settings()
    if settings.WARN_PAYLOAD_BYTES <= settings.MAX_PAYLOAD_BYTES:
        return []
    return [
        error(
            8,
            f"DURABLE['WARN_PAYLOAD_BYTES'] ({settings.WARN_PAYLOAD_BYTES:,}) is more than MAX_PAYLOAD_BYTES "
            f"({settings.MAX_PAYLOAD_BYTES:,}): the warning would come after the error.",
            "Lower WARN_PAYLOAD_BYTES or raise MAX_PAYLOAD_BYTES.",
        )
    ]


@register(TAG)
def check_redaction(**_: Any) -> Messages:
    path = sound_settings().REDACT
    if (wrong := _wrong_with_function(path)) is None:
        return []
    return [
        error(
            15,
            f"DURABLE['REDACT'] is {_shown(path)}, which {wrong}.",
            "It is the dotted path of a function that takes a run, a kind and a value, and returns what the admin "
            "shows. As long as it cannot be asked, the admin shows no value and no error.",
        )
    ]


@register(TAG)
def check_watching(**_: Any) -> Messages:
    path = sound_settings().MAY_WATCH
    if (wrong := _wrong_with_function(path)) is None:
        return []
    return [
        error(
            16,
            f"DURABLE['MAY_WATCH'] is {_shown(path)}, which {wrong}.",
            "It is the dotted path of a function that takes a user and a run, and returns True for whom may watch the "
            "run. As long as it cannot be asked, only the staff may.",
        )
    ]


def _wrong_with_function(path: str | None) -> str | None:
    """What is wrong with this dotted path of a function; None where nothing is."""
    if path is None:
        return None
    try:
        found = import_string(path)
    except Exception as problem:
        return f"cannot be imported: {problem}"
    if not callable(found):
        return "cannot be called"
    return "would have to be awaited" if iscoroutinefunction(found) else None


@register(TAG)
def check_time_zones(**_: Any) -> Messages:
    if django_settings.USE_TZ:
        return []
    return [
        error(
            9,
            "USE_TZ is False, and django_durable stores instants: due times and leases would shift with the clocks.",
            "Set USE_TZ = True.",
        )
    ]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"

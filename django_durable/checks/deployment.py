"""``manage.py check --deploy``: what is fine on a desk and is not where others rely on it."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.checks import register

from .databases import durable_connection
from .messages import TAG, Messages, warning
from .reading import sound_settings
from .redis import redis_cache

MOUNTS = Path("/proc/self/mounts")
OF_SEVERAL_MACHINES = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gfs", "ocfs", "glusterfs", "beegfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.juicefs", "fuse.rclone"),
)
"""How the types of file systems begin that more than one machine may have mounted."""


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
    told = (
        f"Runs are kept in the SQLite database {connection.alias!r}: one writer at a time, and workers on one "
        "machine only."
    )
    hint = "Fine for an appliance or a small site; use PostgreSQL where throughput or a second machine matters."
    if (kind := shared_kind(str(connection.settings_dict.get("NAME", "")))) is not None:
        told += f" Its file is on {kind}, where the locks of several machines are not to be relied on."
        hint = "Move the file to a disk of the one machine that has the workers, or use PostgreSQL."
    return [warning(11, told, hint)]


def shared_kind(name: str) -> str | None:
    """The type of file system that the file is on, where other machines may have it mounted too; None where nothing
    says so."""
    try:
        lines = [line.split() for line in MOUNTS.read_text().splitlines()]
        file = Path(name).resolve()
    except (OSError, ValueError):
        return None
    # As the kernel writes them: what would end a word is escaped.
    mounts = [(Path(place.replace("\\040", " ")), kind) for _, place, kind, *_ in lines]
    within = [(len(place.parts), kind) for place, kind in mounts if file.is_relative_to(place)]
    # The innermost; of several on one place the one that was mounted last.
    kind = max(reversed(within), key=lambda found: found[0], default=(0, ""))[1]
    return kind if kind.startswith(OF_SEVERAL_MACHINES) else None


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
    is_remote = parts.scheme in ("redis", "rediss") and not _is_loopback(parts.hostname or "localhost")
    return is_remote and not parts.password


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

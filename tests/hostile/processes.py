"""A real worker that knows the workflows of the corpus."""

from __future__ import annotations

from typing import Any

from tests.hostile.corpus import CAP
from tests.processes import Worker

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.hostile.settings"}


LEASE = 30
"""Seconds. One of the usual two lapses by itself on a busy machine, and its run has crashed then. SQLite, which waits
as long for a lock, complains of a longer one."""


def hostile_worker(*arguments: str, **durable: Any) -> Worker:
    ours = {"LEASE_SECONDS": LEASE, "MAX_PAYLOAD_BYTES": CAP, "WARN_PAYLOAD_BYTES": CAP}
    return Worker(*arguments, durable={**ours, **durable}, env=SETTINGS)

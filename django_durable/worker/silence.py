"""How long the connections of a worker process wait for a database server that is gone without a word."""

from __future__ import annotations

import os
from math import ceil

from django.db import connections

from ..conf import durable_settings
from ..store.database import Database

LONGEST = 86_400.0
"""Seconds. Linux takes no more than nine hours between two probes of a connection: there are three in a lease."""


def bound() -> None:
    """Before the first connection: those of steps too, to the database of the runs, give up after a lease. What the
    project says of it holds, in ``OPTIONS`` or in a service file, and so does PGCONNECT_TIMEOUT.

    Left to the kernel that takes a quarter of an hour where something was sent, and two hours where only an answer is
    awaited, while another server may long have taken over.
    """
    connection = connections[Database().alias]
    options = connection.settings_dict.get("OPTIONS") or {}
    if connection.vendor != "postgresql" or "service" in options:
        return
    told = parameters(durable_settings().LEASE_SECONDS)
    if "PGCONNECT_TIMEOUT" in os.environ:
        del told["connect_timeout"]
    if not _knows_time_outs():
        del told["tcp_user_timeout"]
    connection.settings_dict["OPTIONS"] = {**told, **options}


def parameters(seconds: float) -> dict[str, int]:
    """What libpq is to be told; over a Unix socket it heeds the first only. In seconds, but ``tcp_user_timeout`` in
    milliseconds. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
    """
    seconds = min(seconds, LONGEST)
    probe = max(1, round(seconds / 3))
    return {
        # A server that is busy starts a session late, and to ask it once more makes it no faster.
        "connect_timeout": max(10, ceil(seconds)),
        # No less than a second, in which a lost packet comes again.
        "tcp_user_timeout": max(1_000, ceil(seconds * 1_000)),
        "keepalives_idle": probe,
        "keepalives_interval": probe,
        "keepalives_count": 2,
    }


def _knows_time_outs() -> bool:
    """libpq before 12, where the machine has such a one, refuses what it does not know."""
    from psycopg import pq

    return pq.version() >= 120_000

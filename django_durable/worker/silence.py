"""How long the connections of a worker process wait for a database server that is gone without a word."""

from __future__ import annotations

from math import ceil

from django.db import connections

from ..conf import durable_settings
from ..store.database import Database

LONGEST = 86_400.0
"""Seconds. Linux takes no more than nine hours between two probes of a connection: there are three in a lease."""


def bound() -> None:
    """Before the first connection: those of steps too, to the database of the runs, give up after a lease. What the
    project says of it in ``OPTIONS`` holds.

    Left to the kernel that takes a quarter of an hour where something was sent, and two hours where only an answer is
    awaited, while another server may long have taken over.
    """
    alias = Database().alias
    if connections[alias].vendor == "postgresql":
        settings = connections[alias].settings_dict
        settings["OPTIONS"] = {**parameters(durable_settings().LEASE_SECONDS), **(settings.get("OPTIONS") or {})}


def parameters(seconds: float) -> dict[str, int]:
    """What libpq is to be told; over a Unix socket it heeds the first only. In seconds, but ``tcp_user_timeout`` in
    milliseconds. https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
    """
    seconds = min(seconds, LONGEST)
    probe = max(1, round(seconds / 3))
    return {
        # A server that is busy starts a session late, and to ask it once more makes it no faster.
        "connect_timeout": max(10, ceil(seconds)),
        "tcp_user_timeout": ceil(seconds * 1_000),
        "keepalives_idle": probe,
        "keepalives_interval": probe,
        "keepalives_count": 2,
    }

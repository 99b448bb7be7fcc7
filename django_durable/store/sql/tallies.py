"""What workers did, minute by minute: counts that are only ever added to."""

from __future__ import annotations

from ..dialects import Dialect

KEY = ("kind", "minute", "workflow", "queue", "name")
EVENTS = ("started", "succeeded", "failed", "cancelled")
TALLY = {
    **dict.fromkeys(KEY, "text"),
    "minute": "timestamptz",
    **dict.fromkeys(EVENTS, "integer"),
}


def add(d: Dialect) -> str:
    """In the order of the keys: processes that add to the same rows wait for each other, and never in a circle."""
    kept = "django_durable_tally"
    sums = ", ".join(f"{event} = {kept}.{event} + excluded.{event}" for event in EVENTS)
    return f"""
        INSERT INTO {kept} ({", ".join(TALLY)})
        SELECT {", ".join(f"i.{column}" for column in TALLY)} FROM {d.recordset("tallies", "i", TALLY)}
        WHERE 1 = 1 ORDER BY {", ".join(f"i.{column}" for column in KEY)}
        ON CONFLICT ({", ".join(KEY)}) DO UPDATE SET {sums}"""


def prune(d: Dialect) -> str:
    """Delete up to ``limit`` rows that are older than ``seconds``; one that is being added to is left alone."""
    # The kinds by name: the key begins with them.
    key = ", ".join(KEY)
    return f"""
        DELETE FROM django_durable_tally WHERE ({key}) IN (
            SELECT {key} FROM django_durable_tally
            WHERE kind IN ('runs', 'seconds', 'step') AND minute <= {d.later("-(%(seconds)s)")}
            ORDER BY {key} LIMIT %(limit)s {d.lock})"""

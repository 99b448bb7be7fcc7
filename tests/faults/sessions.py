"""Sessions of PostgreSQL that end while a case waits for it."""

from __future__ import annotations

import time

from django_durable.store.database import Database

END_SECONDS = 60.0
LOOK_SECONDS = 0.001
"""``pg_terminate_backend`` with a time-out looks again only after a tenth of a second, for each."""


def terminate(db: Database, pids: list[int]) -> None:
    """End them; they have ended when this returns."""
    if pids:
        db.rows("SELECT pg_terminate_backend(pid) FROM unnest(%(pids)s) AS pid", pids=pids)
        await_end(db, pids)


def await_end(db: Database, pids: list[int]) -> None:
    """Return once they have ended. Raises AssertionError where they do not."""
    deadline = time.monotonic() + END_SECONDS
    while db.rows("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%(pids)s)", pids=pids):
        assert time.monotonic() < deadline, f"the sessions {pids} have not ended within {END_SECONDS:g} s"
        time.sleep(LOOK_SECONDS)

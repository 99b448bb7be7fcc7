"""How runs end, for who looks on."""

from __future__ import annotations

from functools import cache

from ...core.journal import states
from ...core.journal.states import Status
from ..statements import Typed, typed

ALL = "({})".format(", ".join(f"'{status}'" for status in Status))
"""Every status that there is, for IN."""
TERMINAL = "({})".format(", ".join(f"'{status}'" for status in Status if status in states.TERMINAL))
"""The statuses of runs that are over, for IN."""


@cache
def ending() -> Typed:
    """The status of a run, and what it has returned."""
    # As a text: a statement stays prepared, and PostgreSQL refuses one whose columns have another type now.
    return typed("""
        SELECT CAST(r.status AS text), CASE WHEN r.status = 'succeeded' THEN (
            SELECT p.data FROM django_durable_payload p WHERE p.run_id = r.id AND p.kind = 'output') END
        FROM django_durable_run r WHERE r.id = %(id)s""")

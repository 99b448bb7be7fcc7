"""What `manage.py durable_check --payloads` says, for tests: is what stands in the tables possible at all?

All but what it says of Redis (I21), and of what should have moved (L1 to L6): for that a worker has to be there.
"""

from __future__ import annotations

from django_durable.store.database import Database
from django_durable.store.invariants import INVARIANTS, Bounds, Violation, violations
from django_durable.store.invariants.values import examine_values

SHOWN = 20


def violated(settled: float = 0.0) -> list[Violation]:
    """Every violation, at most SHOWN of each invariant.

    ``settled``: seconds after which a sweep must have found what nobody woke; 0 where all sweeps have been made.
    """
    db = Database()
    values = examine_values(db, Bounds(limit=SHOWN))
    assert not values.not_known, values.not_known
    found = [
        violation for invariant in INVARIANTS for violation in violations(db, invariant, limit=SHOWN, settled=settled)
    ]
    return found + values.violations

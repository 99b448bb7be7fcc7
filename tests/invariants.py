"""What `manage.py durable_check --payloads` says, for tests: is what stands in the tables possible at all?

All but what should have moved (L1 to L6): for that a worker has to be there.
"""

from __future__ import annotations

from dataclasses import replace

from django_durable.management.commands._check.examinations import EXAMINATIONS, LISTS
from django_durable.store.database import Database
from django_durable.store.invariants import INVARIANTS, Bounds, Violation, violations
from django_durable.store.invariants.terms import Terms
from django_durable.store.invariants.values import examine_values

SHOWN = 20
LONG = 365 * 86_400.0
NO_SWEEP = 3600.0
"""Seconds: no test waits as long for a sweep."""


def violated(settled: float = 0.0) -> list[Violation]:
    """Every violation in the tables, at most SHOWN of each invariant.

    ``settled``: seconds after which a sweep must have found what nobody woke; 0 where all sweeps have been made.
    """
    db = Database()
    values = examine_values(db, Bounds(limit=SHOWN))
    assert not values.not_known, values.not_known
    found = [
        violation for invariant in INVARIANTS for violation in violations(db, invariant, limit=SHOWN, settled=settled)
    ]
    return found + values.violations


def violated_in_lists() -> list[Violation]:
    """I21, where the queue is in Redis and no retention has removed a run. What tests before have left there, and whose
    rows are gone, is a violation too."""
    [lists] = [one for one in EXAMINATIONS if one.id == LISTS.id]
    finding = lists.look(Database(), replace(Terms.now(0.0), kept=LONG), Bounds(limit=SHOWN))
    assert not finding.not_known, finding.not_known
    return finding.violations

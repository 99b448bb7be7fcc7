"""All that can be examined, in the order in which it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....queues.current import queue_kind
from ....store.database import Database
from ....store.invariants import INVARIANTS, Bounds, Finding, Invariant, examine
from ....store.invariants.catalogue import VALUES
from ....store.invariants.liveness import MOVEMENTS, Movement, examine_movement
from ....store.invariants.terms import Terms
from ....store.invariants.values import examine_values
from ....store.invariants.walking import timed

LISTS = Invariant("I21", "Redis holds nothing but ids of runs.", ())

Look = Callable[[Database, Terms, Bounds], Finding]


@dataclass(slots=True, frozen=True)
class Examination:
    """``is_asked_for``: only then, since it takes long."""

    id: str
    look: Look
    is_asked_for: bool = False


def _of_tables(invariant: Invariant) -> Examination:
    return Examination(invariant.id, lambda db, terms, bounds: examine(db, invariant, terms, bounds))


def _of_values() -> Examination:
    return Examination(VALUES.id, lambda db, terms, bounds: examine_values(db, bounds), is_asked_for=True)


def _of_movement(movement: Movement) -> Examination:
    return Examination(movement.id, lambda db, terms, bounds: examine_movement(db, movement, bounds))


def _examine_lists(db: Database, terms: Terms, bounds: Bounds) -> Finding:
    if queue_kind() != "redis":
        return Finding(LISTS.id, LISTS.text, not_looked_at="the queue is not in Redis")
    # Here, because with the database queue no Redis client need be installed.
    from .lists import ListsUnread, look_through

    def look(finding: Finding) -> None:
        try:
            look_through(db, finding, bounds, terms.kept)
        except ListsUnread as error:
            finding.not_known = str(error)

    return timed(LISTS, look)


EXAMINATIONS = (
    *map(_of_tables, INVARIANTS),
    _of_values(),
    Examination(LISTS.id, _examine_lists),
    *map(_of_movement, MOVEMENTS),
)
IDS = [one.id for one in EXAMINATIONS]

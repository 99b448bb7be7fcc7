"""Is what the tables say possible at all? Read-only, in windows of ids, so that no statement is long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .database import Database
from .dialects import Dialect
from .sql import invariants as sql

WINDOW = 5_000
RUNS, KEYS = "django_durable_run", "django_durable_idempotencykey"
FIRST_RUN, LAST_RUN = UUID(int=0), UUID(int=2**128 - 1)
LAST_KEY = 2**63 - 1


@dataclass(slots=True, frozen=True)
class Invariant:
    """``id`` as in the design's list, ``text`` what holds, ``walks`` the table whose ids make the windows."""

    id: str
    text: str
    query: Callable[[Dialect], str]
    walks: str = RUNS
    needs_age: bool = False


INVARIANTS = (
    Invariant("I1", "A run is running if and only if it has a whole lease.", sql.lease),
    Invariant("I2", "A run is over if and only if it has an end, and its outcome fits its status.", sql.ending),
    Invariant("I6", "The sequence of a journal strictly grows.", sql.sequence),
    Invariant("I8", "A path occurs once in a run's journal.", sql.paths),
    Invariant("I13", "An unexpired idempotency key has one run.", sql.keys, walks=KEYS),
    Invariant("I18", "The parent of a live attached child exists.", sql.parents),
    Invariant("I18b", "A cancelled parent has no attached child that goes on.", sql.cancelled_parents, needs_age=True),
    Invariant(
        "I22", "A waiting run has something to wake it, and nothing that should have.", sql.waits, needs_age=True
    ),
    Invariant("orphans", "Journal, payloads, events, tags and audit belong to runs that exist.", sql.orphans),
)


@dataclass(slots=True, frozen=True)
class Violation:
    """A run (or what is left of one) that breaks an invariant, and how."""

    invariant: str
    run_id: UUID
    problem: str


def violations(
    db: Database, invariant: Invariant, *, limit: int, settled: float, window: int = WINDOW
) -> list[Violation]:
    """Up to ``limit`` violations. ``settled``: seconds after which a sweep must have found what nobody woke."""
    d = db.dialect
    found: list[Violation] = []
    parameters: dict[str, Any] = {"settled": float(settled)} if invariant.needs_age else {}
    for after, until in _windows(db, invariant.walks, window):
        left = limit - len(found)
        rows = db.rows(invariant.query(d), after=after, until=until, limit=left, **parameters)
        found += [Violation(invariant.id, d.read_key(row[0]), row[1]) for row in rows]
        if len(found) >= limit:
            break
    return found


def _windows(db: Database, table: str, size: int) -> Iterator[tuple[Any, Any]]:
    """Windows that together hold every id there can be, each with about ``size`` rows of the table."""
    d = db.dialect
    after, last = (d.key(FIRST_RUN), d.key(LAST_RUN)) if table == RUNS else (0, LAST_KEY)
    while True:
        end = db.rows(sql.window_end(table), after=after, beyond=size - 1)
        if not end:
            yield after, last
            return
        until = d.key(d.read_key(end[0][0])) if table == RUNS else end[0][0]
        yield after, until
        after = until

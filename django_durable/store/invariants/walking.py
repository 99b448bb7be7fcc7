"""A walk along the ids of a table: a bounded look at each window, and what was found in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from ...core import clock
from ..database import Database, Row
from ..sql.invariants.windows import count_rest, window_end
from .catalogue import RUNS, Invariant, Look
from .finding import Finding, Violation
from .reading import TIMEOUT, NotInTime, brief_look
from .terms import Terms

WINDOW = 5_000
QUICK = 0.25
"""A window that took no larger part of the time that a statement may take is followed by one of twice as many rows."""
FIRST_RUN, LAST_RUN = UUID(int=0), UUID(int=2**128 - 1)
LAST_KEY = 2**63 - 1


@dataclass(slots=True, frozen=True)
class Bounds:
    """How much is looked at: up to ``window`` rows at a time, each statement for ``timeout`` seconds, until ``limit``
    violations are found."""

    limit: int = 20
    window: int = WINDOW
    timeout: float = TIMEOUT


def violations(
    db: Database,
    invariant: Invariant,
    *,
    limit: int,
    settled: float,
    window: int = WINDOW,
    timeout: float = TIMEOUT,
) -> list[Violation]:
    """Up to ``limit`` violations. ``settled``: seconds after which a sweep must have found what nobody woke. Raises
    NotInTime."""
    finding = Finding(invariant.id, invariant.text)
    _walk_all(db, invariant, Terms.now(settled), Bounds(limit, window, timeout), finding)
    return finding.violations


def examine(db: Database, invariant: Invariant, terms: Terms, bounds: Bounds) -> Finding:
    """What can be said of the invariant; never raises NotInTime."""
    return timed(invariant, lambda finding: _walk_all(db, invariant, terms, bounds, finding))


def timed(invariant: Invariant, look: Callable[[Finding], None]) -> Finding:
    """What ``look`` has found, in how many seconds, until it was stopped."""
    finding = Finding(invariant.id, invariant.text)
    began = clock.monotonic()
    try:
        look(finding)
    except NotInTime as error:
        finding.not_known = str(error)
    finding.seconds = clock.monotonic() - began
    return finding


def _walk_all(db: Database, invariant: Invariant, terms: Terms, bounds: Bounds, finding: Finding) -> None:
    for look in invariant.looks:
        if len(finding.violations) < bounds.limit:
            _walk(db, look, terms, bounds, finding)


def _walk(db: Database, look: Look, terms: Terms, bounds: Bounds, finding: Finding) -> None:
    query, parameters = look.query(db.dialect), terms.parameters

    def find(window: Window) -> bool:
        left = bounds.limit - len(finding.violations)
        rows = db.rows(query, after=window.after, until=window.until, limit=left, **parameters)
        finding.violations += [_read(db, finding.id, row) for row in rows]
        finding.rows += window.rows if look.counts is None else db.rows(look.counts())[0][0]
        return len(finding.violations) < bounds.limit

    walk(db, look.walks, bounds, find)


def _read(db: Database, name: str, row: Row) -> Violation:
    return Violation(name, None if row[0] is None else db.dialect.read_key(row[0]), row[1])


# --- windows ---------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class Window:
    """The ids after ``after``, up to ``until``; ``rows`` of the table."""

    after: Any
    until: Any
    rows: int


def walk(db: Database, table: str | None, bounds: Bounds, look: Callable[[Window], bool]) -> None:
    """Call ``look`` for windows that together hold every id there can be, each with at most so many rows of the table,
    until it says that it has seen enough (False).

    What belongs to so many rows may be too much for one statement: where one was stopped, ``look`` is called again for
    the first half of the window. Raises NotInTime where that was a single row.
    """
    d = db.dialect
    after, last = (d.key(FIRST_RUN), d.key(LAST_RUN)) if table == RUNS else (0, LAST_KEY)
    size = 1 if table is None else bounds.window
    is_on = True
    while is_on:
        window: Window | None = None
        began = clock.monotonic()
        try:
            with brief_look(db, bounds.timeout):
                window = Window(after, last, 0) if table is None else _window(db, table, after, last, size)
                wants_more = look(window)
        except NotInTime:
            if size == 1:
                raise
            # Of the rows that are there: in the last window these may be far fewer than it might hold.
            size = max(min(size, size if window is None else window.rows) // 2, 1)
            continue
        if clock.monotonic() - began <= QUICK * bounds.timeout:
            size = min(2 * size, bounds.window)
        after, is_on = window.until, wants_more and window.until != last


def _window(db: Database, table: str, after: Any, last: Any, size: int) -> Window:
    end = db.rows(window_end(table), after=after, beyond=size - 1)
    if not end:
        return Window(after, last, db.rows(count_rest(table), after=after)[0][0])
    return Window(after, db.dialect.key(db.dialect.read_key(end[0][0])) if table == RUNS else end[0][0], size)

"""How many runs of each workflow are live, counted so far that it costs little."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ..core.journal.states import Status
from ..store.database import Database
from ..store.sql import backlogs as sql
from .standing import Bounded

MOST = 10_000
"""Rows of each index that are counted, of all workflows together."""


@dataclass(slots=True)
class Backlogs:
    """``cut``: statuses of which there are more than are counted, so that each figure is the least it can be."""

    counts: dict[tuple[str, Status], int] = field(default_factory=lambda: defaultdict(int))
    cut: set[Status] = field(default_factory=set)

    def of(self, names: tuple[str, ...], status: Status) -> Bounded:
        """Of a workflow with these names."""
        return Bounded(sum(self.counts.get((name, status), 0) for name in names), status in self.cut)


def backlogs() -> Backlogs:
    """One query."""
    db, found = Database(), Backlogs()
    totals: Counter[str] = Counter()
    statuses: defaultdict[str, set[Status]] = defaultdict(set)
    for part, workflow, status, number in db.rows(sql.backlogs(db.dialect), most=MOST + 1):
        found.counts[workflow, Status(status)] += number
        totals[part] += number
        statuses[part].add(Status(status))
    for part, total in totals.items():
        if total > MOST:
            # Of those asleep, whatever there may be behind the first ones.
            found.cut |= {Status.SCHEDULED, Status.WAITING} if part == "asleep" else statuses[part]
    return found

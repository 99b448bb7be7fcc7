"""Children that nobody waits for any more: a branch that lost a race had started them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from uuid import UUID

from django.db.models import Q

from ..core.states import LIVE
from ..exceptions import RunLocked
from ..models import Run
from ..queues.ready import Ready
from .auditing import Verb
from .database import Database
from .sql import waits
from .transitions import as_ready, cancel

LOST = Verb(reason="its branch lost a race")


def cancel_unwanted(db: Database, parent_id: UUID, paths: Collection[str]) -> list[Ready]:
    """Cancel the live, attached children at ``paths`` (a child's, or that of a map); those that are to be queued.

    Raises RunLocked. The sweep comes back to those that this did not reach.
    """
    there = Q(parent_path__in=list(paths))
    for path in paths:
        there |= Q(parent_path__startswith=f"{path}[")
    children = Run.objects.using(db.alias).filter(there, parent_id=parent_id, status__in=LIVE, detached=False)
    found = list(children.values_list("pk", flat=True))
    return as_ready(cancel(db, found, LOST).queued) if found else []


def sweep_unwanted(db: Database, limit: int) -> list[Ready]:
    """Cancel those that a dead process left; one whose row somebody holds is left for the next sweep."""
    ready: list[Ready] = []
    for row in db.rows(waits.find_unwanted(db.dialect), limit=limit):
        with suppress(RunLocked):
            ready += as_ready(cancel(db, [db.dialect.read_key(row[0])], LOST).queued)
    return ready

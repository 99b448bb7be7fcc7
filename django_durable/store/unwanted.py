"""Children that nobody waits for any more: a branch that lost a race had started them.

The commit that makes them unwanted says so in a payload of their parent's, one path a line, which goes when they are
cancelled. Whatever becomes of the process in between, the sweep finds that note, and finds nothing where there is none:
it need not ask ten thousand healthy children whether somebody still wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from ..core.journal.states import PayloadKind
from ..exceptions import RunLocked
from ..models import Payload
from ..queues.ready import Ready
from .auditing import Verb
from .database import Database
from .sql import waits
from .transitions import as_ready, cancel

LOST = Verb(reason="its branch lost a race")
BATCH = 500
"""Children whose rows one transaction locks, their descendants aside."""


def cancel_unwanted(db: Database, parent_id: UUID, paths: Sequence[str]) -> list[Ready]:
    """Cancel the live, attached children at ``paths`` (a child's, or that of a map); those that are to be queued.

    Raises RunLocked. The sweep comes back to those that this did not reach.
    """
    ready: list[Ready] = []
    d = db.dialect
    while rows := db.rows(waits.unwanted_children(d), id=d.key(parent_id), paths=d.list(set(paths)), limit=BATCH):
        ready += as_ready(cancel(db, [d.read_key(row[0]) for row in rows], LOST).queued)
    # Unless another race has added to it: whoever has read all of it may take it away.
    note = Payload.objects.using(db.alias).filter(run_id=parent_id, kind=PayloadKind.UNWANTED)
    note.filter(data="\n".join(paths)).delete()
    return ready


def find_unwanted(db: Database, limit: int) -> dict[UUID, list[str]]:
    """Parents and paths whose children should be cancelled; as a rule somebody is just about to."""
    rows = db.rows(waits.find_unwanted(), limit=limit)
    return {db.dialect.read_key(run_id): data.split("\n") for run_id, data in rows}


def cancel_all_unwanted(db: Database, found: dict[UUID, list[str]]) -> list[Ready]:
    """Cancel those that a dead process left; one whose row somebody holds is left for the next sweep."""
    ready: list[Ready] = []
    for parent_id, paths in found.items():
        with suppress(RunLocked):
            ready += cancel_unwanted(db, parent_id, paths)
    return ready

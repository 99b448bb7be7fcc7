"""Ids that somebody was told of: are there such runs? What has told them is not known here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from ..database import Database
from ..pruning import id_at
from ..scheduling import database_now
from ..sql.invariants import hints as sql
from ..sql.invariants import liveness
from .liveness import names_in
from .reading import brief_look

UUID7 = 7
HEARD_OF = 86_400.0
"""Seconds: of the queues of processes that were there since."""


def queues_in_use(db: Database, timeout: float) -> set[str]:
    """The queues in which runs are ready, or that a worker served of late. Raises NotInTime."""
    d = db.dialect
    with brief_look(db, timeout):
        ready = {name for (name,) in db.rows(sql.queues(d))}
        served = {name for row in db.rows(liveness.workers(d), silence=HEARD_OF) for name in names_in(row[2])}
    return ready | served


def missing(db: Database, ids: Sequence[UUID], kept: float, timeout: float) -> list[UUID]:
    """Those of the ids that are no run, and none that retention may have removed: an id tells when its run was made,
    ``kept`` for how many seconds it was there at least. Raises NotInTime."""
    d = db.dialect
    with brief_look(db, timeout):
        there = {d.read_key(row[0]) for row in db.rows(sql.there(d), ids=d.list(set(ids)))}
        since = id_at(database_now(db) - timedelta(seconds=kept))
    return [one for one in ids if one not in there and (one.version != UUID7 or one >= since)]

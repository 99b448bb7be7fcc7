"""Worker processes, as each of them tells of itself."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from ..conf import durable_settings
from ..queues.ready import Ready
from .claiming import Claimant
from .database import Database
from .holding import Held, read_held
from .sql import workers as sql


def register(db: Database, who: Claimant, *, concurrency: int, is_isolated: bool, version: str) -> None:
    """Tell that the process lives, and what it can work on."""
    db.rows(
        sql.register(db.dialect),
        id=db.dialect.key(who.id),
        host=socket.gethostname()[:255],
        pid=os.getpid(),
        queues=json.dumps(who.queues),
        workflows=json.dumps(who.workflows),
        concurrency=concurrency,
        is_isolated=is_isolated,
        version=version[:64],
    )


def beat(db: Database, worker_id: UUID) -> Held | None:
    """Tell that the process lives; what is held. None: the database has forgotten the process."""
    rows = db.rows(sql.beat(db.dialect), id=db.dialect.key(worker_id))
    return read_held(rows[0][0]) if rows else None


def stop(db: Database, worker_id: UUID) -> None:
    """Tell that the process has ended."""
    db.rows(sql.stop(db.dialect), id=db.dialect.key(worker_id))


def count_suspects(db: Database, queues: Sequence[str], workflows: Sequence[str], limit: int) -> int:
    """How many suspects of these workflows wait in these queues, up to ``limit``."""
    d = db.dialect
    counted = db.rows(sql.count_suspects(d), queues=d.list(queues), workflows=d.list(workflows), limit=limit)
    return sum(row[0] for row in counted)


def count_busy(db: Database, worker_ids: Sequence[UUID]) -> int:
    """How many of these processes have a run."""
    d = db.dialect
    counted = db.rows(sql.count_busy(d), workers=d.list(worker_ids))
    return sum(row[0] for row in counted)


def first_startable(db: Database, queue: str, limit: int, *, without: Iterable[str] = ()) -> list[Ready]:
    """The first ``limit`` queued runs of ``queue``, best first; none of the workflows ``without``."""
    d = db.dialect
    rows = db.rows(sql.window(d), queue=queue, limit=limit, without=d.list(without))
    return [Ready(d.read_key(row[0]), row[1], row[2]) for row in rows]


def startable(db: Database, ids: Collection[UUID]) -> list[Ready]:
    """Those of ``ids`` that workers are to hear of: queued ones, best first, and those that come due before the next
    sweep."""
    d, soon = db.dialect, float(durable_settings().REAP_SECONDS)
    rows = db.rows(sql.startable(d), ids=d.ids(ids), within=soon)
    return [Ready(d.read_key(row[0]), row[1], row[2], row[3]) for row in rows]


def known_workflows(db: Database, silence: float) -> set[str]:
    """The workflows that some live worker knows; ``silence`` is how many seconds without a beat are no life."""
    known: set[str] = set()
    for (names,) in db.rows(sql.known_workflows(db.dialect), silence=float(silence)):
        known.update(json.loads(names) if isinstance(names, str) else names)
    return known

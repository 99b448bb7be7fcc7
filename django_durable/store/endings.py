"""How a run stands, for who waits for its end: one small statement, which he sends again and again."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from ..core.journal.states import Status
from .database import Database
from .sql import endings


class Ending(NamedTuple):
    """``output`` is the encoded value of a run that has succeeded; None where retention has taken it."""

    status: Status
    output: str | None


def ending_of(db: Database, run_id: UUID) -> Ending | None:
    """None: there is no such run."""
    rows = db.look_up(endings.ending(), id=db.dialect.key(run_id))
    return Ending(Status(rows[0][0]), rows[0][1]) if rows else None

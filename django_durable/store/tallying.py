"""Counts of what workers did, added to the table that charts and rates are read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..models import Tally
from .database import Database, as_json
from .sql import tallies as sql

STARTED = "started"
WAIT_SECONDS = 1.0
"""A heartbeat adds the counts, and is not to wait for longer for whoever holds one of the rows."""

Key = tuple[datetime, str, str, str, int | None, str | None]
"""A ``Counted``, or a tuple like it: those are made five times as fast, one for each run."""
Row = tuple[str, datetime, str, str, str]
"""The key of a row: its columns in the order of ``sql.KEY``."""


class Counted(NamedTuple):
    """What is counted: to so many runs of a workflow and a queue the same happened in the same minute.

    ``event`` is ``started`` or the status in which they ended, ``bucket`` how long they took (see ``core.histogram``).
    With a ``step`` it is not they who are counted, but how often it was the one that failed.
    """

    minute: datetime
    workflow: str
    queue: str
    event: str
    bucket: int | None = None
    step: str | None = None


def add(db: Database, counts: Mapping[Key, int]) -> None:
    """Add them all, in one statement. Raises what the database raises: then nothing is known to be added."""
    d = db.dialect
    sums: dict[Row, Counter[str]] = {}
    for key, count in counts.items():
        one = Counted(*key)
        for row in _rows_of(one):
            sums.setdefault(row, Counter())[one.event] += count
    rows = [_described(row, counted) | {"minute": d.instant(row[1])} for row, counted in sums.items()]
    with db.brief_transaction(WAIT_SECONDS):
        db.rows(sql.add(d), tallies=as_json(rows))


def _rows_of(one: Counted) -> Iterator[Row]:
    """The rows in which it counts."""
    if one.step is not None:
        yield Tally.STEP, detail_of(one.minute), one.workflow, one.queue, one.step
        return
    yield Tally.RUNS, one.minute, one.workflow, one.queue, ""
    if one.bucket is not None:
        yield Tally.SECONDS, detail_of(one.minute), one.workflow, one.queue, str(one.bucket)


def detail_of(moment: datetime) -> datetime:
    """The minute under which the details of this moment are counted: the first of its ten."""
    return moment - timedelta(
        minutes=moment.minute % Tally.DETAIL_MINUTES, seconds=moment.second, microseconds=moment.microsecond
    )


def _described(row: Row, counted: Counter[str]) -> dict[str, Any]:
    return dict(zip(sql.KEY, row, strict=True)) | {event: counted[event] for event in sql.EVENTS}


def prune(db: Database, limit: int, seconds: float) -> None:
    """Delete up to ``limit`` rows that are older than ``seconds``."""
    db.rows(sql.prune(db.dialect), limit=limit, seconds=seconds)

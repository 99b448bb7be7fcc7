"""How the whole installation stands now: for people who look at it every few seconds, so all of it is bounded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from ..core.journal.states import Status
from ..store.database import Database
from ..store.holding import NOTHING, Held
from ..store.sql import standing as sql
from .listing import DUE_GRACE

READY_MOST = 10_000
OTHERS_MOST = 1_000
"""Nobody counts further: what is more is told as "1,000 and more"."""
QUEUES_MOST = 100


@dataclass(slots=True, frozen=True)
class Bounded:
    """How many; with ``is_more`` how many at least, which may be none."""

    number: int = 0
    is_more: bool = False

    def __add__(self, other: Bounded) -> Bounded:
        return Bounded(self.number + other.number, self.is_more or other.is_more)

    def __bool__(self) -> bool:
        return self.number > 0


NONE = Bounded()


@dataclass(slots=True)
class QueueStanding:
    """``oldest``: since when the run that has been ready for longest, or suspect, could start."""

    ready: Bounded = NONE
    suspect: Bounded = NONE
    oldest: datetime | None = None
    running: Bounded = NONE
    waiting: Bounded = NONE
    scheduled: Bounded = NONE

    @property
    def startable(self) -> Bounded:
        """What any worker may start, and suspects, which wait for a process of their own that a worker has started."""
        return self.ready + self.suspect


@dataclass(slots=True)
class Standing:
    """``now`` is the database's time. ``held``: how many runs each worker works on. ``blocked``: by reason.

    ``overdue``: runs, by status, that are due and were not promoted. ``failed``: of the newest that failed, those that
    did since the time that was asked for. Of both there may be more than none where others fill what was read.
    """

    now: datetime
    queues: defaultdict[str, QueueStanding] = field(default_factory=lambda: defaultdict(QueueStanding))
    held: Counter[UUID] = field(default_factory=Counter)
    blocked: dict[str, Bounded] = field(default_factory=dict)
    overdue: dict[Status, Bounded] = field(default_factory=dict)
    failed: Bounded = NONE
    failed_of: set[str] = field(default_factory=set)
    """The workflows of those that are counted as failed."""
    is_cut: bool = False
    """Whether there may be other queues with a backlog than those of ``queues``."""

    def of(self, queue: str) -> QueueStanding:
        """How that one stands, as far as it was looked at."""
        unknown = Bounded(0, self.is_cut)
        return self.queues.get(queue) or QueueStanding(ready=unknown, waiting=unknown, scheduled=unknown)


class _Row(NamedTuple):
    name: str
    more: str
    number: int
    since: datetime | None


def standing(failed_since: datetime, held: Held = NOTHING) -> Standing:
    """One query. Of at most ``QUEUES_MOST`` queues with a backlog, and those that are worked on. What is ``held`` is
    not overdue."""
    db = Database()
    rows = db.rows(
        sql.standing(db.dialect),
        most=READY_MOST + 1,
        few=OTHERS_MOST + 1,
        queues=QUEUES_MOST,
        late=DUE_GRACE,
        since=db.dialect.instant(failed_since),
        held_queues=db.dialect.list(held.queues),
        held_workflows=db.dialect.list(held.workflows),
    )
    found: dict[str, list[_Row]] = defaultdict(list)
    for what, name, more, number, since in rows:
        found[what].append(_Row(name, more, number, db.dialect.read_instant(since)))
    now = found["now"][0].since
    assert now is not None  # noqa: S101  (for the type checker)
    stands = Standing(now, is_cut=len(found["ready"]) == QUEUES_MOST or len(_by_name(found["asleep"])) == QUEUES_MOST)
    _read_ready(stands, found)
    _read_waiting(stands, found)
    _read_running(stands, found["held"])
    for row, count in _window(found["blocked"], OTHERS_MOST):
        stands.blocked[row.name] = count
    _read_failed(stands, found["failed"])
    _read_overdue(stands, found["overdue"])
    if stands.is_cut:
        # Those that are known by what is worked on, say.
        for name in stands.queues.keys() - {row.name for row in found["ready"]}:
            stands.queues[name].ready += Bounded(0, is_more=True)
    return stands


def _window(rows: list[_Row], most: int) -> Iterable[tuple[_Row, Bounded]]:
    """The counts of rows that were taken together: where these were more than are counted, each count may be more."""
    is_cut = sum(row.number for row in rows) > most
    return [(row, Bounded(min(row.number, most), is_cut)) for row in rows]


def _read_failed(stands: Standing, rows: list[_Row]) -> None:
    for row, count in _window(rows, OTHERS_MOST):
        stands.failed += Bounded(0 if row.more else count.number, count.is_more)
        if not row.more:
            stands.failed_of.add(row.name)
    # Each was cut by itself.
    stands.failed = Bounded(min(stands.failed.number, OTHERS_MOST), stands.failed.is_more)


def _read_ready(stands: Standing, found: dict[str, list[_Row]]) -> None:
    windows = [*([row] for row in found["ready"]), found["limited"]]
    for row, count in (pair for rows in windows for pair in _window(rows, READY_MOST)):
        if count:
            queue = stands.queues[row.name]
            queue.ready += count
            queue.oldest = _earlier(queue.oldest, row.since)
    for row, count in _window(found["suspect"], OTHERS_MOST):
        queue = stands.queues[row.name]
        queue.suspect += count
        queue.oldest = _earlier(queue.oldest, row.since)


def _earlier(*times: datetime | None) -> datetime:
    return min(time for time in times if time is not None)


def _read_waiting(stands: Standing, found: dict[str, list[_Row]]) -> None:
    for row, count in (pair for rows in _by_name(found["asleep"]) for pair in _window(rows, OTHERS_MOST)):
        if row.more == Status.SCHEDULED:
            stands.queues[row.name].scheduled += count
        else:
            stands.queues[row.name].waiting += count
    for row, count in _window(found["awaiting"], OTHERS_MOST):
        if not row.more:
            stands.queues[row.name].waiting += count


def _read_overdue(stands: Standing, rows: list[_Row]) -> None:
    """A line that was cut may have more of either status: what was read of it may all be of the other, or held."""
    for row, count in (pair for line in _by_name(rows) for pair in _window(line, OTHERS_MOST)):
        if row.more and (count or count.is_more):
            status = Status(row.more)
            stands.overdue[status] = stands.overdue.get(status, NONE) + count


def _by_name(rows: list[_Row]) -> Collection[list[_Row]]:
    found: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        found[row.name].append(row)
    return found.values()


def _read_running(stands: Standing, rows: list[_Row]) -> None:
    for row, count in _window(rows, READY_MOST):
        stands.queues[row.name].running += count
        stands.held[UUID(row.more)] += count.number

"""Claims: runs that this process may work on, with what is durable of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, cast
from uuid import UUID

from ..core import clock
from ..core.clock import DatabaseClock
from ..core.flow.lease import Lease
from ..core.journal.inbox import ChildState, SentEvent
from ..core.journal.journal import Entry, MemoryJournal
from ..core.journal.states import EntryStatus, Kind, Phase
from ..core.limits import Bounds
from .database import Database, Row, as_json
from .dialects import Dialect
from .fencing import claim_rows
from .sql import claims as sql
from .statements import Typed, typed

Claiming = Callable[[Dialect], str]
"""A statement of ``sql`` that claims."""


@dataclass(slots=True, frozen=True)
class Claimant:
    """Who claims: the process's id (fresh for each process), its queues, the workflows that it knows by name."""

    id: UUID
    queues: tuple[str, ...]
    workflows: tuple[str, ...]
    limits: Mapping[str, Bounds] = field(default_factory=dict)
    """The bounds by workflow, of those whose runs are limited."""


@dataclass(slots=True, eq=False)
class Claim:
    """One claimed run. ``input`` is encoded text, None where retention or damage took it."""

    lease: Lease
    workflow: str
    attempt: int
    max_attempts: int | None
    phase: str
    deadline_at: datetime | None
    root_id: UUID
    queue: str
    priority: int
    claims: int
    fingerprint: str
    parent_id: UUID | None
    input: str | None
    journal: MemoryJournal
    has_begun: bool = True
    """Whether there may be a journal: from a claim before this one, or from the run that it was forked from."""
    pending_error: str | None = None
    """The failure that the run will end with once ``on_failure`` is through."""
    unreadable: str | None = None
    """What of the journal this release cannot read: the run is blocked, and does not take its neighbours along."""
    limit_key: str | None = None
    is_fork: bool = False
    started: float = field(default_factory=clock.monotonic)
    """When the run was first claimed, by this or another process, in monotonic seconds of this one."""
    claimed: float = field(default_factory=clock.monotonic)
    """When this process claimed it, likewise."""

    @property
    def run_id(self) -> UUID:
        return self.lease.run_id


class JournalsUnread(Exception):
    """Runs were claimed, and what is durable of them could not be read: whoever claimed hands ``leases`` back."""

    def __init__(self, leases: Sequence[Lease]) -> None:
        super().__init__(f"the journals of {len(leases)} claimed runs could not be read")
        self.leases = leases


def claim_ids(db: Database, who: Claimant, ids: Sequence[UUID], *, lease: float, time: DatabaseClock) -> list[Claim]:
    """Claim those of ``ids`` that are still queued, in the claimant's queues. ``lease`` is seconds."""
    if not ids:
        return []
    d = db.dialect
    queues = d.texts(who.queues)
    if len(ids) == 1:
        return _claim(db, who, sql.claim_id, lease, time, id=d.key(ids[0]), queues=queues)
    return _claim(db, who, sql.claim_ids, lease, time, ids=d.ids(ids), queues=queues)


def claim_next(db: Database, who: Claimant, limit: int, *, lease: float, time: DatabaseClock) -> list[Claim]:
    """Claim up to ``limit`` runs of the claimant's queues that are queued or due, best first."""
    queues = db.dialect.texts(who.queues)
    return _claim(db, who, sql.claim_next, lease, time, limit=limit, queues=queues)


def claim_oldest(db: Database, who: Claimant, limit: int, *, lease: float, time: DatabaseClock) -> list[Claim]:
    """Claim up to ``limit`` queued runs of the claimant's queues, those first that have waited longest."""
    queues = db.dialect.texts(who.queues)
    return _claim(db, who, sql.claim_oldest, lease, time, limit=limit, queues=queues)


def hand_back(db: Database, leases: Sequence[Lease]) -> None:
    """Queue again what was claimed and not started; nothing happens where the token is not the run's any more."""
    db.rows(sql.hand_back(db.dialect), claims=claim_rows(db.dialect, leases))


def seconds_to_next_due(db: Database, who: Claimant) -> float | None:
    """Seconds until the next scheduled or waiting run that the claimant may claim comes due; None: none is known."""
    d = db.dialect
    [row] = db.rows(
        sql.next_due(d, limited=bool(who.limits)), queues=d.texts(who.queues), workflows=d.texts(who.workflows)
    )
    wake_at, now = (d.read_instant(value) for value in row)
    return None if wake_at is None else (wake_at - cast(datetime, now)).total_seconds()


class Ahead(NamedTuple):
    """What a look would find. ``due_in``: seconds until the next run comes due; None where none is known."""

    has_queued: bool
    due_in: float | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to claim now, with a limit or without."""
        return not self.has_queued and (self.due_in is None or self.due_in > 0)


def look_ahead(db: Database, who: Claimant) -> Ahead:
    """One cheap statement in place of the several claims that an idle worker would try, each in vain."""
    d = db.dialect
    [(queued, *times)] = db.rows(sql.ahead(d), queues=d.texts(who.queues), workflows=d.texts(who.workflows))
    wake_at, now = (d.read_instant(value) for value in times)
    return Ahead(bool(queued), None if wake_at is None else (wake_at - cast(datetime, now)).total_seconds())


def claim_suspect(db: Database, who: Claimant, *, lease: float, time: DatabaseClock) -> list[Claim]:
    """Claim one run that is suspected of killing its process."""
    queues = db.dialect.texts(who.queues)
    return suspected(_claim(db, who, sql.claim_suspect, lease, time, limit=1, queues=queues))


def suspected(claims: list[Claim]) -> list[Claim]:
    """The same claims, whose leases say from now on that their runs are under suspicion."""
    for claim in claims:
        claim.lease.is_suspect = True
    return claims


def _claim(
    db: Database, who: Claimant, statement: Claiming, lease: float, time: DatabaseClock, **parameters: object
) -> list[Claim]:
    if not who.workflows or not who.queues:
        return []
    # The lease is counted from before the statement was sent: the local end is never later than the stored one.
    ends = clock.monotonic() + lease
    rows = db.rows(
        _written(statement, db.dialect, db.dialect.now),
        worker=db.dialect.key(who.id),
        workflows=db.dialect.texts(who.workflows),
        lease=float(lease),
        **parameters,
    )
    return read_claims(db, who, rows, ends, time)


@lru_cache(maxsize=32)
def _written(statement: Claiming, d: Dialect, now: str) -> Typed:
    """Its text, which does not change. ``now``: that of ``d``, which tests move."""
    return typed(statement(d))


def read_claims(db: Database, who: Claimant, rows: Sequence[Row], ends: float, time: DatabaseClock) -> list[Claim]:
    """The claims that a claiming statement returned, once it is committed, with what is durable of their runs.

    ``ends``: when the leases end (monotonic seconds). Raises JournalsUnread. Who has made those that are not their
    run's first is kept as well.
    """
    if not rows:
        return []
    time.observe(cast(datetime, db.dialect.read_instant(rows[0][14])))
    now = clock.monotonic()
    claims = [_read_claim(db, row, ends, time, now) for row in rows]
    try:
        _load(db, who, [claim for claim in claims if claim.has_begun], time)
    except Exception as error:
        # The claim is committed: nobody else would touch these runs before their leases lapse.
        raise JournalsUnread([claim.lease for claim in claims]) from error
    return claims


def _read_claim(db: Database, row: Row, ends: float, time: DatabaseClock, now: float) -> Claim:
    d = db.dialect
    lease = Lease(d.read_key(row[0]), d.read_key(row[1]), ends)
    lease.hear(cancelling=row[11] is not None, pausing=row[11] is None and row[16] is not None)
    return Claim(
        lease=lease,
        workflow=row[2],
        attempt=row[3],
        max_attempts=row[4],
        phase=row[5],
        deadline_at=d.read_instant(row[6]),
        root_id=d.read_key(row[7]),
        queue=row[8],
        priority=row[9],
        claims=row[10],
        fingerprint=row[12],
        parent_id=None if row[13] is None else d.read_key(row[13]),
        input=row[15],
        has_begun=row[10] > 1 or row[17] is not None,
        limit_key=row[19],
        is_fork=row[17] is not None,
        started=now if row[18] is None else now - row[18],
        claimed=now,
        journal=MemoryJournal(now=time.now),
    )


def _load(db: Database, who: Claimant, claims: list[Claim], time: DatabaseClock) -> None:
    """Read journals, events and ended children, in statements after the claim: its own snapshot is too old.

    A run that was never claimed before has no journal; an event that it was sent already is found when it suspends.
    """
    if not claims:
        return
    d = db.dialect
    ids = d.list([claim.run_id for claim in claims])
    entries, unreadable = _read_entries(db, _keep_and_load(db, who, claims, ids))
    events = _load_events(db, ids)
    waits = {run_id for run_id, found in entries.items() if any(_waits_for_child(entry) for entry in found.values())}
    children = _load_children(db, d.list(waits)) if waits else defaultdict(dict)
    ending = [claim for claim in claims if claim.phase != Phase.FORWARD]
    errors: dict[UUID, str] = {}
    if ending:
        rows = db.rows(sql.load_errors(d), ids=d.ids([claim.run_id for claim in ending]))
        errors = {d.read_key(run_id): text for run_id, text in rows}
    for claim in claims:
        run_id = claim.run_id
        claim.pending_error = errors.get(run_id)
        claim.unreadable = unreadable.get(run_id)
        claim.journal = MemoryJournal(entries[run_id], events[run_id], children[run_id], now=time.now)


def load_news(db: Database, run_id: UUID) -> tuple[list[SentEvent], dict[str, ChildState]]:
    """What the outside has sent to a run that is being worked on: open events, and children that have ended."""
    ids = db.dialect.list([run_id])
    return _load_events(db, ids)[run_id], _load_children(db, ids)[run_id]


def _load_events(db: Database, ids: object) -> dict[UUID, list[SentEvent]]:
    d = db.dialect
    events: dict[UUID, list[SentEvent]] = defaultdict(list)
    for row in db.rows(sql.load_events(d), ids=ids):
        sent_at = cast(datetime, d.read_instant(row[4]))
        events[d.read_key(row[0])].append(SentEvent(row[1], row[2], row[3], sent_at))
    return events


def _load_children(db: Database, ids: object) -> dict[UUID, dict[str, ChildState]]:
    d = db.dialect
    children: dict[UUID, dict[str, ChildState]] = defaultdict(dict)
    for row in db.rows(sql.load_children(d), ids=ids):
        children[d.read_key(row[0])][row[1]] = ChildState(d.read_key(row[2]), row[3], row[4], row[5])
    return children


def _keep_and_load(db: Database, who: Claimant, claims: list[Claim], ids: object) -> list[Row]:
    """The rows of the journals. A first claim stands in its run's row; it has a journal where the run is a fork."""
    d = db.dialect
    later = [{"id": d.key(claim.run_id), "claims": claim.claims} for claim in claims if claim.claims > 1]
    made = {"claimed": as_json(later), "worker": d.key(who.id)}
    if later and d.has_writing_ctes:
        return db.rows(sql.keep_and_load(d), ids=ids, **made)
    if later:
        db.rows(sql.keep_claims(d), **made)
    return db.rows(sql.load_journal(d), ids=ids)


def _read_entries(db: Database, rows: Sequence[Row]) -> tuple[dict[UUID, dict[str, Entry]], dict[UUID, str]]:
    """The entries of each run, and of which runs there are some that cannot be read: a newer release wrote them."""
    entries: dict[UUID, dict[str, Entry]] = defaultdict(dict)
    unreadable: dict[UUID, str] = {}
    for row in rows:
        run_id = db.dialect.read_key(row[0])
        try:
            entries[run_id][row[1]] = _read_entry(db, row)
        except (ValueError, TypeError) as error:
            unreadable[run_id] = f"journal entry {row[1]!r}: {error}"
    return entries, unreadable


def _read_entry(db: Database, row: Row) -> Entry:
    return Entry(
        path=row[1],
        seq=row[2],
        kind=Kind(row[3]),
        status=EntryStatus(row[4]),
        attempts=row[5],
        value=row[6],
        error=row[7],
        wake_at=db.dialect.read_instant(row[8]),
        awaits=row[9],
        undo=bool(row[10]),
    )


def _waits_for_child(entry: Entry) -> bool:
    return entry.kind in (Kind.CHILD, Kind.MAP) and entry.status == EntryStatus.WAITING

"""What should have moved by now, and somebody was there to move it.

A backlog is no fault, and neither is what is held, at its limit, or known to nobody: a run counts only where a worker
that has been there for long has more than room enough for all that it could take. And what a look finds may move the
next moment: only what several looks find as it was has been left lying.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any
from uuid import UUID

from ...conf import durable_settings
from ...core import clock
from ...core.registry import limits
from ..database import Database, Row
from ..holding import Held, held
from ..sql.invariants import liveness as sql
from .catalogue import Invariant
from .finding import Finding, Violation
from .reading import brief_look
from .walking import Bounds, timed

SPARE = 30.0
BETWEEN_LOOKS = 1.0
MISSED_BEATS = 3
FIRED_LEASES = 2
"""For so many leases running code need not have confirmed its schedules."""

NO_WORKER = "no worker is alive"


@dataclass(slots=True, frozen=True)
class Patience:
    """In seconds: ``bound`` is how late something may be, ``queued`` how long a run may stay queued, ``again`` how long
    what was found must stay as it was, ``silence`` how long a living process may be silent."""

    bound: float
    queued: float
    again: float
    silence: float

    @classmethod
    def now(cls) -> Patience:
        """As the settings say."""
        settings = durable_settings()
        bound = settings.LEASE_SECONDS + settings.REAP_SECONDS + settings.POLL_SECONDS + SPARE
        return cls(
            bound=bound,
            # A worker that drains claims nothing, and cannot be told from one that does.
            queued=bound + settings.SHUTDOWN_GRACE_SECONDS,
            # What is held no more each worker hears with its heartbeat, and looks at the database once a sweep.
            again=settings.HEARTBEAT_SECONDS + 2 * settings.REAP_SECONDS + settings.POLL_SECONDS,
            silence=MISSED_BEATS * settings.HEARTBEAT_SECONDS,
        )


@dataclass(slots=True, frozen=True)
class Process:
    """A worker that is alive, with the queues and workflows of which it may claim runs."""

    name: str
    queues: tuple[str, ...]
    workflows: tuple[str, ...]
    room: int
    """For how many more runs: half of its free slots, as the others may go to those with a limit, or without."""
    age: float
    is_isolated: bool


@dataclass(slots=True, frozen=True)
class Candidate:
    """What has not moved. ``stamp`` is what would be another if it had."""

    key: str
    stamp: str
    run_id: UUID | None
    problem: str = field(compare=False)


Find = Callable[[Database, Sequence[Process], Patience, Bounds], Iterable[Candidate]]


@dataclass(slots=True, frozen=True)
class Movement:
    """A part of liveness. ``age``: for how long a worker must have been there; None: it needs none."""

    id: str
    text: str
    find: Find
    age: Callable[[Patience], float] | None = None
    only: str = ""
    """The vendor of the only database that can tell."""


def examine_movement(db: Database, movement: Movement, bounds: Bounds, patience: Patience | None = None) -> Finding:
    """What has not moved for too long; takes ``patience.again`` seconds where there may be something."""
    invariant = Invariant(movement.id, movement.text, ())
    return timed(invariant, lambda finding: _look(db, movement, bounds, finding, patience))


def _look(db: Database, movement: Movement, bounds: Bounds, finding: Finding, given: Patience | None) -> None:
    patience = given or Patience.now()
    if movement.only and movement.only != db.dialect.vendor:
        finding.not_looked_at = f"only {movement.only} tells"
        return
    found = _find(db, movement, bounds, patience, finding)
    ends = clock.monotonic() + patience.again
    while found and clock.monotonic() < ends:
        time.sleep(min(BETWEEN_LOOKS, patience.again))
        found &= _find(db, movement, bounds, patience, finding)
    finding.violations = [
        Violation(finding.id, one.run_id, one.problem) for one in sorted(found, key=lambda one: one.key)[: bounds.limit]
    ]


def _find(db: Database, movement: Movement, bounds: Bounds, patience: Patience, finding: Finding) -> set[Candidate]:
    with brief_look(db, bounds.timeout):
        alive = _alive(db, patience)
        age = movement.age(patience) if movement.age else 0.0
        old = [process for process in alive if process.age > age]
        if movement.age and not old:
            finding.not_looked_at = f"no worker has been alive for {age:g} s" if alive else NO_WORKER
            return set()
        finding.not_looked_at = ""
        found = set(movement.find(db, old, patience, bounds))
        finding.rows = max(finding.rows, len(found))
        return found


def _alive(db: Database, patience: Patience) -> list[Process]:
    what = held(db)
    rows = db.rows(sql.workers(db.dialect), silence=patience.silence)
    return [_process(row, what) for row in rows]


def _process(row: Row, what: Held) -> Process:
    host, pid, queues, workflows, slots, taken, age, is_isolated = row
    return Process(
        name=f"{host}:{pid}",
        queues=tuple(name for name in names_in(queues) if name not in what.queues),
        workflows=tuple(name for name in names_in(workflows) if name not in what.workflows),
        room=(max(slots - taken, 0) + 1) // 2,
        age=float(age),
        is_isolated=bool(is_isolated),
    )


def names_in(stored: Any) -> list[str]:
    """What a column of JSON holds, which SQLite gives as text."""
    return list(json.loads(stored) if isinstance(stored, str) else stored)


# --- runs ------------------------------------------------------------------------------------


def _stuck(db: Database, alive: Sequence[Process], patience: Patience, bounds: Bounds) -> Iterable[Candidate]:
    rows = db.rows(sql.lapsed(db.dialect), bound=patience.bound, limit=bounds.limit)
    yield from (_run(db, row, "running, and its lease lapsed {} s ago") for row in rows)
    yield from _not_claimed(db, alive, patience, sql.ready(db.dialect), "queued for {} s")
    for process in _claimants(alive):
        yield from _not_claimed_limited(db, process, patience)


def _overdue(db: Database, alive: Sequence[Process], patience: Patience, bounds: Bounds) -> Iterable[Candidate]:
    return _not_claimed(db, alive, patience, sql.due(db.dialect), "due for {} s")


def _claimants(alive: Sequence[Process]) -> list[Process]:
    return [one for one in alive if not one.is_isolated and one.room and one.queues and one.workflows]


def _not_claimed(
    db: Database, alive: Sequence[Process], patience: Patience, statement: str, problem: str
) -> Iterable[Candidate]:
    for process in _claimants(alive):
        rows = _first(db, process, statement)
        if len(rows) <= process.room:
            yield from (_run(db, row, _left(problem, process)) for row in rows if row[2] > patience.queued)


def _not_claimed_limited(db: Database, process: Process, patience: Patience) -> Iterable[Candidate]:
    """Those whose limit the code here knows and has room. Whether a rate lets another begin is not asked."""
    known = limits()
    rows = _first(db, process, sql.limited(db.dialect))
    for row in rows if len(rows) <= process.room else []:
        workflow, has_begun, leased = row[3:]
        bounds = known.get(workflow)
        is_free = bounds is not None and (bounds.concurrency is None or leased < bounds.concurrency)
        if bounds is not None and is_free and (bounds.rate is None or has_begun) and row[2] > patience.queued:
            yield _run(db, row, _left("queued for {} s, and its limit has room", process))


def _first(db: Database, process: Process, statement: str) -> list[Row]:
    """One more than the process has room for: then it has a backlog."""
    d = db.dialect
    return db.rows(
        statement, queues=d.list(process.queues), workflows=d.list(process.workflows), limit=process.room + 1
    )


def _left(problem: str, process: Process) -> str:
    return f"{problem}, and {process.name} has room for it"


def _run(db: Database, row: Row, problem: str) -> Candidate:
    run_id = db.dialect.read_key(row[0])
    return Candidate(str(run_id), str(row[1]), run_id, problem.format(round(row[2])))


# --- schedules and sessions ------------------------------------------------------------------


def _late(db: Database, alive: Sequence[Process], patience: Patience, bounds: Bounds) -> Iterable[Candidate]:
    d = db.dialect
    # What starts runs starts them whether they are held or not.
    known = {name for names in db.rows(sql.known(d), silence=patience.silence) for name in names_in(names[0])}
    rows = db.rows(
        sql.late(d),
        bound=patience.bound,
        silence=FIRED_LEASES * durable_settings().LEASE_SECONDS,
        workflows=d.list(sorted(known)),
        limit=bounds.limit,
    )
    for key, stamp, seconds in rows:
        yield Candidate(str(key), str(stamp), None, f"schedule {key} was due {seconds:.0f} s ago, and has not fired")


def _sessions(db: Database, alive: Sequence[Process], patience: Patience, bounds: Bounds) -> Iterable[Candidate]:
    for pid, since, seconds, what in db.rows(sql.sessions(), bound=patience.bound, limit=bounds.limit):
        yield Candidate(str(pid), str(since), None, f"the session {pid} {what} for {seconds:.0f} s")


MOVEMENTS = (
    Movement(
        "L1", "No run is queued that could start, and none has a lease that lapsed.", _stuck, attrgetter("queued")
    ),
    Movement("L2", "No run is due that nobody has taken up.", _overdue, attrgetter("queued")),
    Movement("L5", "Schedules fire.", _late, attrgetter("bound")),
    Movement("L6", "No session holds up others.", _sessions, only="postgresql"),
)

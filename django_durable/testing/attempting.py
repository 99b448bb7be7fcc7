"""One claim and its attempt, each as if by a process of its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import Error as AnyDatabaseError

from ..conf import durable_settings
from ..core.clock import DatabaseClock
from ..core.ids import uuid7
from ..core.journal.outcomes import Lost
from ..core.journal.states import LIVE
from ..core.registry import limits
from ..executor.async_attempt import arun_attempt
from ..executor.sync_attempt import run_attempt
from ..executor.transactions import within_open_transactions
from ..store import recovery
from ..store.claiming import Claim, Claimant, claim_next, claim_suspect
from ..store.database import Database
from ..store.holding import held, narrowed
from ..store.limiting import KeyWalk, claim_limited
from ..worker import announcing
from ..workflows.registry import get_workflow
from .committing import AttemptCommit
from .interrupting import Fate, active

LEASE_SECONDS = 100 * 365 * 86_400.0
"""Nobody renews it: it must outlast a debugger in a step, and a test that moves the clock in one."""


@dataclass(slots=True, frozen=True)
class Turn:
    """A claim, and the process (an id of nobody's) that made it."""

    worker_id: UUID
    claim: Claim


def next_turn(db: Database, known: tuple[str, ...]) -> Turn | None:
    """Claim the run that is next, of every queue; those suspected of a crash come last, and alone as always."""
    queues = _queues(db)
    if not queues:
        return None
    who, walk = narrowed(Claimant(uuid7(), queues, known, limits()), held(db)), KeyWalk()
    if claims := claim_next(db, who, 1, lease=LEASE_SECONDS, time=DatabaseClock()):
        return Turn(who.id, claims[0])
    if claims := claim_limited(db, who, 1, walk, lease=LEASE_SECONDS, time=DatabaseClock()):
        return Turn(who.id, claims[0])
    if claims := claim_suspect(db, who, lease=LEASE_SECONDS, time=DatabaseClock()):
        return Turn(who.id, claims[0])
    if claims := claim_limited(db, who, 1, walk, lease=LEASE_SECONDS, time=DatabaseClock(), suspect=True):
        return Turn(who.id, claims[0])
    return None


def _queues(db: Database) -> tuple[str, ...]:
    """Every queue that a live run is in: a test should not have to name them."""
    from ..models import Run

    live = Run.objects.using(db.alias).filter(status__in=sorted(LIVE))
    return tuple(live.order_by().values_list("queue", flat=True).distinct())


def work(db: Database, turn: Turn) -> None:
    """Make the attempt, and give its lease up where it did not end by itself."""
    try:
        _give_up(db, turn, _attempt(db, turn))
        for interruption in active():
            interruption.end(turn.claim)
    except BaseException:
        # For the test that expects the error and goes on. Its transaction may be broken: then nothing is to be saved.
        with suppress(AnyDatabaseError):
            recovery.release_worker(db, turn.worker_id)
        raise


def _attempt(db: Database, turn: Turn) -> Fate:
    claim, workflow = turn.claim, get_workflow(turn.claim.workflow)
    with AttemptCommit(db, claim) as commit:
        for send in announcing.started(workflow, claim):
            send()
        # The loop of async_to_sync sends what blocks, and all SQL, back to this thread.
        attempt = async_to_sync(arun_attempt) if workflow.is_async else run_attempt
        with within_open_transactions():
            outcome = attempt(claim, workflow, commit)
    if commit.fate is Fate.ALIVE and isinstance(outcome, Lost):
        return Fate.UNWOUND
    return commit.fate


def _give_up(db: Database, turn: Turn, fate: Fate) -> None:
    """At once, without waiting until the lease lapses."""
    match fate:
        case Fate.CRASHED:
            settings = durable_settings()
            lease, max_crashes = settings.LEASE_SECONDS, settings.MAX_CRASHES
            recovery.reap_worker(db, turn.worker_id, lease=lease, max_crashes=max_crashes)
        case Fate.UNWOUND:
            recovery.release_worker(db, turn.worker_id)

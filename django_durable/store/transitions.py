"""The verbs of the outside: guarded UPDATEs that decide by the status they find. They join the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, F, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from ..core.journal.states import LIVE, TERMINAL, EntryStatus, Kind, PayloadKind, Phase, Status
from ..models import JournalEntry, Payload, Run
from ..models.run import IS_REPLACED, RunQuerySet
from ..queues.ready import Ready
from .anew import make_room
from .auditing import Verb, audit
from .clock import DatabaseNow
from .database import Database
from .locking import brief_lock, change, lock_parents, locked
from .owing import owed, tell_not_undone


def as_ready(runs: Sequence[Run]) -> list[Ready]:
    """The runs as a queue needs to know them."""
    return [Ready(run.pk, run.queue, run.priority) for run in runs]


@dataclass(slots=True)
class Cancelling:
    """What a cancellation did: ``count`` runs were live; some ended at once, some were queued for a worker to end."""

    ended: list[Run]
    queued: list[Run]
    count: int = 0

    def add(self, other: Cancelling) -> None:
        self.ended += other.ended
        self.queued += other.queued
        self.count += other.count


def cancel(db: Database, run_ids: Sequence[UUID], by: Verb, *, patience: float | None = None) -> Cancelling:
    """Ask the runs and their live, attached descendants to stop. Terminal ones are left as they are. A blocked one ends
    at once, unless it has something to undo: then code that fits does that first, or another call ends it as it is.

    The row is locked first and then looked at: an UPDATE for each status would let the run slip between them. Raises
    RunLocked where a row is held for ``patience`` seconds (LOCK_SECONDS).
    """
    done = Cancelling([], [])
    layer = Run.objects.filter(pk__in=list(run_ids))
    verb = by
    with brief_lock(db, run_ids, patience):
        while runs := [run for run in locked(db, layer) if run.status not in TERMINAL]:
            owing = owed(db, [run for run in runs if _may_still_undo(run)])
            fresh = [run for run in runs if _ends_at_once(run) and run.pk not in owing]
            resting = [run for run in runs if run.status in RESTING and run not in fresh]
            audit(db, _statuses(runs), "cancel", verb)
            ids = [run.pk for run in runs]
            Run.objects.using(db.alias).filter(pk__in=ids, cancel_requested_at=None).update(
                cancel_requested_at=DatabaseNow(), pause_requested_at=None
            )
            tell_not_undone(db, [run for run in fresh if run.status == Status.BLOCKED])
            still: dict[str, Any] = {"wake_at": None, "block_reason": ""}
            change(db, fresh, status=Status.CANCELLED, finished_at=DatabaseNow(), **still)
            change(db, resting, status=Status.QUEUED, queued_at=DatabaseNow(), waiting_on="", **still)
            done.ended += fresh
            done.queued += resting
            done.count += len(runs)
            layer = attached_children(runs)
            verb = Verb(by.actor, f"parent cancelled: {by.reason}" if by.reason else "parent cancelled")
    return done


def attached_children(runs: Sequence[Run]) -> RunQuerySet:
    """Whom a cancellation of these comes to next. The live ones only: a parent of thousands that have ended would lock
    and load them all."""
    return Run.objects.filter(parent_id__in=[run.pk for run in runs], detached=False, status__in=LIVE)


RESTING = (Status.WAITING, Status.PAUSED, Status.BLOCKED)
"""Where a cancelled run has to be queued, for a worker to end it."""


def _ends_at_once(run: Run) -> bool:
    """Nothing of it is under way, and nothing will be: not started, or blocked."""
    return run.status in (Status.SCHEDULED, Status.BLOCKED) or (run.status != Status.RUNNING and run.claims == 0)


def _may_still_undo(run: Run) -> bool:
    """Blocked, and nobody has tried to undo it in vain or asked for that before: who asks again ends it as it is."""
    return run.status == Status.BLOCKED and run.phase == Phase.FORWARD and run.cancel_requested_at is None


def pause(db: Database, run_ids: Sequence[UUID], by: Verb) -> int:
    """Put runs aside: those that rest at once, a running one at its next call; how many it concerned.

    What is over, blocked, asked to stop or pausing already is left as it is. Children go on. Raises RunLocked.
    """
    pausable = Run.objects.filter(
        pk__in=list(run_ids), status__in=LIVE - {Status.PAUSED, Status.BLOCKED}, cancel_requested_at=None
    ).exclude(status=Status.RUNNING, pause_requested_at__isnull=False)
    with brief_lock(db, run_ids):
        runs = locked(db, pausable)
        audit(db, _statuses(runs), "pause", by)
        running = [run for run in runs if run.status == Status.RUNNING]
        change(db, running, pause_requested_at=DatabaseNow())
        # What it waits for and until when stays in the row, for people and for a start that is still to come.
        change(db, [run for run in runs if run not in running], status=Status.PAUSED)
    return len(runs)


RESUMABLE = frozenset({Status.PAUSED, Status.BLOCKED, Status.FAILED, Status.CANCELLED})

_OF_ITS_PARENT = JournalEntry.objects.filter(
    run_id=OuterRef("parent_id"), path=OuterRef("parent_path"), kind=Kind.CHILD
).values("status")[:1]
# Compared as a value, where EXISTS would say the same: for very many runs PostgreSQL would answer that by a hash of
# every journal that there is.
IS_KNOWN_TO_PARENT = IS_REPLACED | (
    Q(parent__isnull=False) & Q(Exact(Coalesce(Subquery(_OF_ITS_PARENT), Value("")), EntryStatus.FAILED.value))
)
"""Whose parent goes by its failure, or has another in its place: its own going on would change nothing for it."""
IS_RESUMABLE = (
    Q(status__in=sorted(RESUMABLE)) | Q(status=Status.RUNNING, pause_requested_at__isnull=False)
) & ~IS_KNOWN_TO_PARENT


def resume(db: Database, run_ids: Sequence[UUID], by: Verb) -> list[Run]:
    """Paused, blocked, failed or cancelled → queued; goes on from the journal. What ended a failed run starts anew, and
    so does ``on_failure``; failures that the workflow has handled stay as they are. A paused run goes on as it was; one
    that is about to pause does not.

    Those that go on, as they were before. Raises RunLocked.
    """
    with brief_lock(db, run_ids):
        lock_parents(db, run_ids)
        runs = locked(db, Run.objects.filter(IS_RESUMABLE, pk__in=list(run_ids)))
        audit(db, _statuses(runs), "resume", by)
        paused = [run for run in runs if run.status == Status.PAUSED]
        stopped = [run for run in runs if run.status not in (Status.PAUSED, Status.RUNNING)]
        change(db, runs, pause_requested_at=None)
        _go_on(db, paused)
        _begin_anew(db, stopped)
    return runs


def _go_on(db: Database, paused: Sequence[Run]) -> None:
    """Through ``queued``, where a replay sees what came meanwhile; one that has not begun may still have to wait for
    its time. Sleeps, time-outs and the deadline have gone on; an operator who resumes ends a back-off."""
    is_early = Q(claims=0, wake_at__gt=DatabaseNow())
    journal = JournalEntry.objects.using(db.alias).filter(run_id__in=[run.pk for run in paused])
    journal.filter(status=EntryStatus.RETRYING).update(wake_at=None)
    change(
        db,
        paused,
        status=Case(When(is_early, then=Value(Status.SCHEDULED.value)), default=Value(Status.QUEUED.value)),
        queued_at=Case(When(is_early, then=F("queued_at")), default=DatabaseNow()),
        wake_at=Case(When(is_early, then=F("wake_at"))),
        waiting_on="",
    )


def _begin_anew(db: Database, runs: Sequence[Run]) -> None:
    """Forget how they ended."""
    make_room(db, runs)
    change(
        db,
        runs,
        status=Status.QUEUED,
        queued_at=DatabaseNow(),
        finished_at=None,
        cancel_requested_at=None,
        block_reason="",
        fingerprint="",
        phase=Phase.FORWARD,
        suspect=False,
        crashes=0,
        wake_at=None,
        waiting_on="",
        # A deadline that has passed would only end the run again.
        deadline_at=Case(When(deadline_at__gt=DatabaseNow(), then=F("deadline_at")), default=Value(None)),
    )
    outcome = [PayloadKind.OUTPUT, PayloadKind.ERROR, PayloadKind.BLOCK, PayloadKind.TRIED, PayloadKind.RETRY]
    Payload.objects.using(db.alias).filter(run_id__in=[run.pk for run in runs], kind__in=outcome).delete()


def _statuses(runs: Sequence[Run]) -> list[tuple[UUID, str]]:
    return [(run.pk, run.status) for run in runs]

"""The verbs of the outside: each a guarded UPDATE that decides by the status it finds. They join the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Q, QuerySet, Value, When

from ..core.states import TERMINAL, EntryStatus, Kind, PayloadKind, Phase, Status
from ..models import Audit, JournalEntry, Payload, Run
from ..queues.ready import Ready
from .clock import DatabaseNow
from .database import Database


@dataclass(slots=True, frozen=True)
class Verb:
    """Who asks for a transition, and why; kept in the audit."""

    actor: str = ""
    reason: str = ""


def _locked(db: Database, runs: QuerySet[Run]) -> list[Run]:
    """The rows under their locks, in primary key order (the order of every lock of this package)."""
    return list(runs.using(db.alias).select_for_update(no_key=True).order_by("pk"))


def _audit(db: Database, runs: Sequence[Run], verb: str, by: Verb) -> None:
    Audit.objects.using(db.alias).bulk_create(
        Audit(
            run_id=run.pk,
            verb=verb,
            actor=by.actor[:150],
            reason=by.reason,
            status_before=run.status,
            at=DatabaseNow(),
        )
        for run in runs
    )


def as_ready(runs: Sequence[Run]) -> list[Ready]:
    """The runs as a queue needs to know them."""
    return [Ready(run.pk, run.queue, run.priority) for run in runs]


@dataclass(slots=True)
class Cancelling:
    """What a cancellation did: ``count`` runs were live; some ended at once, some were queued for a worker to end."""

    ended: list[Run]
    queued: list[Run]
    count: int = 0


def cancel(db: Database, run_ids: Sequence[UUID], by: Verb) -> Cancelling:
    """Ask the runs and their live, attached descendants to stop. Terminal ones are left as they are.

    The row is locked first and then looked at: an UPDATE for each status would let the run slip between them.
    """
    done = Cancelling([], [])
    layer = Run.objects.filter(pk__in=list(run_ids))
    verb = by
    with db.transaction():
        while runs := [run for run in _locked(db, layer) if run.status not in TERMINAL]:
            fresh = [run for run in runs if _ends_at_once(run)]
            waiting = [run for run in runs if run.status in (Status.WAITING, Status.PAUSED) and run not in fresh]
            _audit(db, runs, "cancel", verb)
            ids = [run.pk for run in runs]
            Run.objects.using(db.alias).filter(pk__in=ids, cancel_requested_at=None).update(
                cancel_requested_at=DatabaseNow()
            )
            _update(db, fresh, status=Status.CANCELLED, finished_at=DatabaseNow(), wake_at=None, block_reason="")
            _update(db, waiting, status=Status.QUEUED, queued_at=DatabaseNow(), wake_at=None, waiting_on="")
            done.ended += fresh
            done.queued += waiting
            done.count += len(runs)
            layer = Run.objects.filter(parent_id__in=ids, detached=False)
            verb = Verb(by.actor, f"parent cancelled: {by.reason}" if by.reason else "parent cancelled")
    return done


def _ends_at_once(run: Run) -> bool:
    """Nothing of it is under way, and nothing will be: not started, or blocked."""
    return run.status in (Status.SCHEDULED, Status.BLOCKED) or (run.status != Status.RUNNING and run.claims == 0)


def _update(db: Database, runs: Sequence[Run], **columns: Any) -> None:
    if runs:
        Run.objects.using(db.alias).filter(pk__in=[run.pk for run in runs]).update(**columns)


def resume(db: Database, run_ids: Sequence[UUID], by: Verb) -> list[Ready]:
    """Paused, blocked, failed or cancelled → queued; goes on from the journal, exhausted steps start anew."""
    resumable = [Status.PAUSED, Status.BLOCKED, Status.FAILED, Status.CANCELLED]
    with db.transaction():
        runs = _locked(db, Run.objects.filter(pk__in=list(run_ids), status__in=resumable))
        runs = [run for run in runs if not _parent_knows_its_end(db, run)]
        ids = [run.pk for run in runs]
        _audit(db, runs, "resume", by)
        _update(
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
        outcome = [PayloadKind.OUTPUT, PayloadKind.ERROR, PayloadKind.BLOCK, PayloadKind.RETRY]
        Payload.objects.using(db.alias).filter(run_id__in=ids, kind__in=outcome).delete()
        JournalEntry.objects.using(db.alias).filter(
            run_id__in=ids, kind=Kind.STEP, status__in=[EntryStatus.FAILED, EntryStatus.RETRYING]
        ).update(status=EntryStatus.RETRYING, attempts=0, wake_at=None, finished_at=None)
    return as_ready(runs)


def _parent_knows_its_end(db: Database, run: Run) -> bool:
    return (
        run.parent_id is not None
        and JournalEntry.objects.using(db.alias)
        .filter(run_id=run.parent_id, path=run.parent_path, kind=Kind.CHILD, status=EntryStatus.FAILED)
        .exists()
    )


def block_unknown(db: Database, known: Sequence[str], limit: int, *, patience: float = 0.0) -> int:
    """Runs that are startable for ``patience`` seconds, of workflows that no live worker knows →
    ``blocked: unknown_workflow``; how many."""
    with db.transaction():
        runs = Run.objects.using(db.alias).filter(status=Status.QUEUED, queued_at__lte=DatabaseNow(ago=patience))
        runs = runs.exclude(workflow__in=list(known))
        ids = [run.pk for run in runs.select_for_update(no_key=True, skip_locked=_skips(db)).order_by("pk")[:limit]]
        return (
            Run.objects.using(db.alias)
            .filter(pk__in=ids)
            .update(status=Status.BLOCKED, block_reason="unknown_workflow", suspect=False)
        )


def unblock_known(db: Database, workflows: Sequence[str], fingerprints: dict[str, str]) -> list[Ready]:
    """Blocked runs that this worker's code may fit: unknown names that it knows, divergences under another code."""
    fits = Q(block_reason="unknown_workflow", workflow__in=list(workflows))
    for workflow, fingerprint in fingerprints.items():
        fits |= Q(block_reason__in=["diverged", "undecodable"], workflow=workflow) & ~Q(fingerprint=fingerprint)
    with db.transaction():
        runs = list(
            Run.objects.using(db.alias)
            .filter(fits, status=Status.BLOCKED)
            .select_for_update(no_key=True, skip_locked=_skips(db))
            .order_by("pk")[:1000]
        )
        _update(db, runs, status=Status.QUEUED, queued_at=DatabaseNow(), block_reason="")
    return as_ready(runs)


def _skips(db: Database) -> bool:
    return db.connection.features.has_select_for_update_skip_locked

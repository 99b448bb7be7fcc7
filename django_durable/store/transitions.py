"""The verbs of the outside: guarded UPDATEs that decide by the status they find. They join the caller's transaction."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Case, F, QuerySet, Value, When

from ..core.codec import decode
from ..core.compensation import UNDO
from ..core.names import ON_FAILURE
from ..core.states import LIVE, TERMINAL, EntryStatus, Kind, PayloadKind, Phase, Status
from ..exceptions import PayloadUndecodable
from ..models import JournalEntry, Payload, Run
from ..queues.ready import Ready
from .auditing import Verb, audit
from .clock import DatabaseNow
from .database import Database
from .locking import brief_lock, change, locked

REPLACED = ""
"""The ``parent_path`` of a child in whose place its resumed parent starts another."""


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

    The row is locked first and then looked at: an UPDATE for each status would let the run slip between them. Raises
    RunLocked.
    """
    done = Cancelling([], [])
    layer = Run.objects.filter(pk__in=list(run_ids))
    verb = by
    with brief_lock(db, run_ids):
        while runs := [run for run in locked(db, layer) if run.status not in TERMINAL]:
            fresh = [run for run in runs if _ends_at_once(run)]
            waiting = [run for run in runs if run.status in (Status.WAITING, Status.PAUSED) and run not in fresh]
            audit(db, _statuses(runs), "cancel", verb)
            ids = [run.pk for run in runs]
            Run.objects.using(db.alias).filter(pk__in=ids, cancel_requested_at=None).update(
                cancel_requested_at=DatabaseNow()
            )
            change(db, fresh, status=Status.CANCELLED, finished_at=DatabaseNow(), wake_at=None, block_reason="")
            change(db, waiting, status=Status.QUEUED, queued_at=DatabaseNow(), wake_at=None, waiting_on="")
            done.ended += fresh
            done.queued += waiting
            done.count += len(runs)
            # The live ones only: a parent of thousands that have ended would lock and load them all.
            layer = Run.objects.filter(parent_id__in=ids, detached=False, status__in=LIVE)
            verb = Verb(by.actor, f"parent cancelled: {by.reason}" if by.reason else "parent cancelled")
    return done


def _ends_at_once(run: Run) -> bool:
    """Nothing of it is under way, and nothing will be: not started, or blocked."""
    return run.status in (Status.SCHEDULED, Status.BLOCKED) or (run.status != Status.RUNNING and run.claims == 0)


def resume(db: Database, run_ids: Sequence[UUID], by: Verb) -> list[Ready]:
    """Paused, blocked, failed or cancelled → queued; goes on from the journal. The step or the child that ended a
    failed run starts anew, and so does ``on_failure``; failures that the workflow has handled stay as they are.

    Raises RunLocked.
    """
    resumable = Run.objects.filter(
        pk__in=list(run_ids), status__in=[Status.PAUSED, Status.BLOCKED, Status.FAILED, Status.CANCELLED]
    )
    with brief_lock(db, run_ids):
        _lock_parents(db, run_ids)
        runs = [run for run in locked(db, resumable) if not _parent_knows_its_end(db, run)]
        ids = [run.pk for run in runs]
        audit(db, _statuses(runs), "resume", by)
        _begin_anew(db, runs)
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
        outcome = [
            PayloadKind.OUTPUT,
            PayloadKind.ERROR,
            PayloadKind.BLOCK,
            PayloadKind.TRIED,
            PayloadKind.RETRY,
        ]
        Payload.objects.using(db.alias).filter(run_id__in=ids, kind__in=outcome).delete()
    return as_ready(runs)


def _statuses(runs: Sequence[Run]) -> list[tuple[UUID, str]]:
    return [(run.pk, run.status) for run in runs]


def _lock_parents(db: Database, run_ids: Sequence[UUID]) -> None:
    """Before the children, as a cancellation does: no parent journals its child's end while we decide by it."""
    children = Run.objects.using(db.alias).filter(pk__in=list(run_ids), parent_id__isnull=False)
    parents = list(children.values_list("parent_id", flat=True))
    if parents:
        locked(db, Run.objects.filter(pk__in=parents))


def _parent_knows_its_end(db: Database, run: Run) -> bool:
    if run.parent_id is None:
        return False
    journal = JournalEntry.objects.using(db.alias).filter(run_id=run.parent_id, path=run.parent_path)
    return run.parent_path == REPLACED or journal.filter(kind=Kind.CHILD, status=EntryStatus.FAILED).exists()


def _begin_anew(db: Database, runs: Sequence[Run]) -> None:
    """Make room in the journals for what is to be done again; a replay raises every other failure as before."""
    failed = [run.pk for run in runs if run.status == Status.FAILED]
    culprits = _culprits(db, failed)
    journal = JournalEntry.objects.using(db.alias).filter(run_id__in=[run.pk for run in runs])
    journal.filter(kind=Kind.STEP, status=EntryStatus.RETRYING).update(wake_at=None)
    journal.filter(pk__in=list(culprits), kind=Kind.STEP, status=EntryStatus.FAILED).update(
        status=EntryStatus.RETRYING, attempts=0, wake_at=None, finished_at=None
    )
    journal.filter(run_id__in=failed, path=ON_FAILURE).delete()
    _do_undone_again(journal)
    _forget_children(db, runs, culprits)


def _do_undone_again(journal: QuerySet[JournalEntry]) -> None:
    """A step that was undone is to be done again; one that could not be undone stands."""
    undos = journal.filter(kind=Kind.UNDO)
    for run_id, path, status in list(undos.values_list("run_id", "path", "status")):
        if status == EntryStatus.SUCCEEDED:
            journal.filter(run_id=run_id, path=path.removesuffix(UNDO)).delete()
    undos.delete()


def _culprits(db: Database, failed: Sequence[UUID]) -> set[tuple[UUID, str]]:
    """Run and path of the steps and children that ended these runs, as the stored errors name them."""
    errors = Payload.objects.using(db.alias).filter(run_id__in=failed, kind=PayloadKind.ERROR)
    return {(run_id, path) for run_id, data in errors.values_list("run_id", "data") for path in _named(data)}


def _named(data: str) -> list[str]:
    try:
        error = decode(data)
    except PayloadUndecodable:
        # One such row must not keep the whole batch from going on.
        return []
    return error.get("culprits", []) if isinstance(error, dict) else []


def _forget_children(db: Database, parents: Sequence[Run], culprits: Set[tuple[UUID, str]]) -> None:
    """A replay starts each of them anew. The old one stays as it ended, at no path, so that it is not taken for the
    new one: nobody would wait for that.

    A parent that ended before it saw its child's end (at the deadline of both, or cancelled with it) forgets it too.
    """
    ids = [run.pk for run in parents]
    ended = {run.pk: run for run in parents if run.status in TERMINAL}
    entries = JournalEntry.objects.using(db.alias).filter(run_id__in=list(ended), kind=Kind.CHILD)
    asked = entries.filter(status__in=[EntryStatus.FAILED, EntryStatus.WAITING])
    seen = {(run_id, path): status for run_id, path, status in asked.values_list("run_id", "path", "status")}
    if not seen:
        return
    children = Run.objects.filter(
        parent_id__in={run_id for run_id, _ in seen},
        parent_path__in={path for _, path in seen},
        status__in=[Status.FAILED, Status.CANCELLED],
    ).exclude(pk__in=ids)
    # Under their locks: one that is resumed itself, now or a moment ago, is what its parent goes on waiting for.
    replaced = [
        child
        for child in locked(db, children)
        if (at := (child.parent_id, child.parent_path)) in seen
        and (seen[at] == EntryStatus.WAITING or at in culprits or _went_with(ended[at[0]], child))
    ]
    # Retention may have removed the child that failed: its parent starts another all the same.
    forgotten = [at for at in culprits if seen.get(at) == EntryStatus.FAILED]
    entries.filter(pk__in=[*forgotten, *((child.parent_id, child.parent_path) for child in replaced)]).delete()
    change(db, replaced, parent_path=REPLACED)


def _went_with(parent: Run, child: Run) -> bool:
    """Whether the child was cancelled with its parent: that ran on for a moment, and may have journaled it."""
    if parent.status != Status.CANCELLED or child.status != Status.CANCELLED:
        return False
    asked, child_asked = parent.cancel_requested_at, child.cancel_requested_at
    return asked is not None and child_asked is not None and child_asked >= asked

"""Starts that look at other runs of their key first: ``debounce`` and ``singleton``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q
from django.db.utils import OperationalError

from ..core.journal.journal import NewRun
from ..core.journal.states import LIVE, PayloadKind, Status
from ..core.limits import Meeting, make_start_key
from ..exceptions import RunLocked
from ..models import Payload, Run, Tag
from ..queues.ready import Ready
from .auditing import Verb
from .database import Database, as_json
from .locking import brief_lock, locked
from .sql import starts
from .starting import run_row, start_runs
from .transitions import Cancelling, attached_children, cancel

_IS_LIVE = Q(status__in=sorted(LIVE), cancel_requested_at=None)
"""What was asked to stop is on its way out: it stands for no other start."""
_IS_PUT_OFF = Q(status=Status.SCHEDULED, claims=0, parent_id=None)


@dataclass(slots=True)
class Started:
    """What starts came to: the run that stands for each, those that came into being, those that were cancelled."""

    run_ids: list[UUID] = field(default_factory=list)
    new: list[NewRun] = field(default_factory=list)
    ready: list[Ready] = field(default_factory=list)
    cancelled: Cancelling = field(default_factory=lambda: Cancelling([], []))


def start_or_meet(
    db: Database, runs: Sequence[NewRun], *, patience: float | None = None, within: set[UUID] | None = None
) -> Started:
    """Start the runs, as far as they do not come to one that is there; each as its ``meeting`` says, in their order.

    In the caller's transaction: who starts a run of the same key meanwhile waits for how that ends, or ``patience``
    seconds. Raises RunLocked then, and where a run that is to be cancelled or put off is held. ``within``: as
    ``lock_starts`` gave it for these starts and others; takes up what is new.
    """
    if not _start_keys(runs):
        return Started([run.id for run in runs], list(runs), start_runs(db, runs) if runs else [])
    started = Started()
    with db.read_committed() if patience is None else brief_lock(db, [run.id for run in runs], patience):
        within = lock_starts(db, runs, patience) if within is None else within
        # Now a statement of its own, which sees what those that we had to wait for have committed.
        for run in runs:
            if (met := _meet(db, run, started, patience, within)) is None:
                started.new.append(run)
                started.ready += start_runs(db, [run])
                if within is not None:
                    within.add(run.id)
            started.run_ids.append(met or run.id)
    return started


def lock_starts(db: Database, runs: Sequence[NewRun], patience: float | None = None) -> set[UUID] | None:
    """Take the keys that these starts look at, until the caller's transaction ends. Whoever takes several takes them in
    one call, which has one order: else two of them may wait for each other. Raises RunLocked as ``start_or_meet``.

    Of several starts also the runs that they will put off or cancel: those and no others, should a verb make more of
    them meanwhile, since these may be held by who waits for us. None: of one start, any.
    """
    keys = _start_keys(runs)
    if not keys:
        return None
    try:
        db.rows(starts.lock_starts(db.dialect), keys=db.dialect.list(map(make_start_key, keys)))
    except OperationalError as error:
        if patience is None or not db.dialect.is_lock_timeout(error):
            raise
        raise RunLocked([], patience, keys=keys) from error
    return _lock_met(db, runs, patience) if len(runs) > 1 else None


def lock_replaced(db: Database, run: NewRun) -> set[UUID] | None:
    """The runs that the start of this one cancels, to be given to it as ``within``. None: it cancels none.

    Takes its key, as ``lock_starts`` does: no other start makes more of them, and those that a verb makes meanwhile are
    not among those that it was asked about.
    """
    if run.meeting != Meeting.CANCEL_RUNNING or run.limit_key is None:
        return None
    lock_starts(db, [run])
    return set(_live(db, run, None))


def _lock_met(db: Database, runs: Sequence[NewRun], patience: float | None) -> set[UUID]:
    """In the order in which every verb locks runs, and not, start by start, in that in which they were given."""
    off, cancelled = (_keys_for(runs, meeting) for meeting in (Meeting.DEBOUNCE, Meeting.CANCEL_RUNNING))
    layer = Run.objects.filter(_IS_PUT_OFF, limit_key__in=off) | Run.objects.filter(_IS_LIVE, limit_key__in=cancelled)
    with brief_lock(db, [], patience):
        met = found = locked(db, layer)
        while found and cancelled:
            found = locked(db, attached_children(found))
    return {run.pk for run in met}


def _keys_for(runs: Sequence[NewRun], meeting: Meeting) -> list[str]:
    return sorted({run.limit_key for run in runs if run.meeting == meeting and run.limit_key is not None})


def _start_keys(runs: Sequence[NewRun]) -> list[str]:
    return sorted({run.limit_key for run in runs if run.meeting and run.limit_key is not None})


def _meet(db: Database, run: NewRun, started: Started, patience: float | None, within: set[UUID] | None) -> UUID | None:
    """The run that stands for this start already, if there is one."""
    match run.meeting:
        case Meeting.DEBOUNCE:
            return _put_off(db, run, patience, within)
        case Meeting.SKIP:
            return next(iter(_live(db, run, None)), None)
        case Meeting.CANCEL_RUNNING if live := _live(db, run, within):
            by = Verb(reason=f"replaced by run {run.id} of its singleton workflow")
            started.cancelled.add(cancel(db, live, by, patience=patience))
    return None


def _live(db: Database, run: NewRun, within: set[UUID] | None) -> list[UUID]:
    same = Run.objects.using(db.alias).filter(_IS_LIVE, limit_key=run.limit_key)
    ids = same.order_by("pk").values_list("pk", flat=True)
    return [run_id for run_id in ids if within is None or run_id in within]


def _put_off(db: Database, run: NewRun, patience: float | None, within: set[UUID] | None) -> UUID | None:
    """Give the run of the key that has not come due another beginning and all that this start says."""
    same = Run.objects.using(db.alias).filter(_IS_PUT_OFF, limit_key=run.limit_key)
    ids = same.order_by("-pk").values_list("pk", flat=True)
    found = next((run_id for run_id in ids if within is None or run_id in within), None)
    if found is None:
        return None
    d = db.dialect
    with brief_lock(db, [found], patience):
        if not db.rows(starts.put_off(d), found=d.key(found), **run_row(d, run)):
            return None
        Payload.objects.using(db.alias).filter(run_id=found, kind=PayloadKind.INPUT).update(data=run.input)
        Tag.objects.using(db.alias).filter(run_id=found).delete()
        if run.tags:
            tags = [{"run_id": d.key(found), "name": tag} for tag in run.tags]
            db.rows(starts.insert_tags(d), tags=as_json(tags))
    return found

"""The verbs on runs, one or many. What they queue or end is told to the queue and to parents after the commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from ..conf import durable_settings
from ..core.codec import encode
from ..core.ids import uuid7
from ..core.journal import NewRun
from ..core.names import check_name
from ..core.registry import find
from ..core.states import TERMINAL, PayloadKind
from ..exceptions import IllegalTransition, RunNotFound
from ..models import Audit, Event, Payload, Run
from ..signals import run_cancelled
from ..store import transitions
from ..store.auditing import Verb, audit
from ..store.clock import DatabaseNow
from ..store.database import Database
from ..store.locking import brief_lock
from ..store.starting import start_runs
from .announcing import announce_after_commit, announce_enqueued
from .pushing import push_after_commit, wake_after_commit

BATCH = 500


def cancel_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> int:
    """Ask these runs and their attached descendants to stop; how many were live. A queryset's ids will do.

    Raises RunLocked where another transaction holds one of them for long: what is done by then stays done (in the
    caller's transaction, if there is one), and the call may be made again.
    """
    db = Database()
    count = 0
    for ids in _batches(run_ids):
        done = transitions.cancel(db, ids, Verb(actor, reason))
        count += done.count
        announce_after_commit(db, run_cancelled, done.ended)
        push_after_commit(db, transitions.as_ready(done.queued))
        for parent_id in {run.parent_id for run in done.ended if run.parent_id is not None}:
            wake_after_commit(db, parent_id)
    return count


def resume_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> int:
    """Let paused, blocked, failed and cancelled runs go on; how many of these runs could. Raises RunLocked, as
    ``cancel_runs`` does."""
    db = Database()
    count = 0
    for ids in _batches(run_ids):
        ready = transitions.resume(db, ids, Verb(actor, reason))
        count += len(ready)
        push_after_commit(db, ready)
    return count


def resume(run_id: UUID, *, reason: str = "", actor: str = "") -> None:
    if not resume_runs([run_id], reason=reason, actor=actor):
        raise IllegalTransition("resumed", run_id, _status(run_id))


def rerun(run_id: UUID, *, reason: str = "", actor: str = "") -> UUID:
    """Start a new run at once, with the workflow, the input and the options of this one; its id."""
    db = Database()
    try:
        old = Run.objects.using(db.alias).get(pk=run_id)
        text = Payload.objects.using(db.alias).get(run_id=run_id, kind=PayloadKind.INPUT).data
    except (Run.DoesNotExist, Payload.DoesNotExist):
        raise RunNotFound(run_id) from None
    tags = tuple(old.tags.using(db.alias).values_list("name", flat=True))
    new = NewRun(
        uuid7(), old.workflow, text, old.queue, old.priority, old.max_attempts, deadline_after=old.timeout, tags=tags
    )
    with db.transaction():
        ready = start_runs(db, [new])
        audit(db, [(old.pk, old.status)], "rerun", Verb(actor, reason))
    push_after_commit(db, ready)
    announce_enqueued(db, find(old.workflow), [new])
    return new.id


def send_event(
    run_id: UUID,
    name: str,
    payload: Any = None,
    idempotency_key: str | None = None,
    *,
    reason: str = "",
    actor: str = "",
) -> None:
    """Store an event for the run in the caller's transaction. The same idempotency key sends once.

    It never waits for the run: that is woken after the commit, and by the sweep where somebody holds its row just
    then. Only the same key in another open transaction is waited for, since how that ends decides: raises RunLocked.
    In the run's audit where an ``actor`` is given: events of programs are many, and stored anyway.
    """
    db = Database()
    check_name("event", name)
    if idempotency_key is not None:
        check_name("idempotency key", idempotency_key)
    text = encode(payload, limit=durable_settings().MAX_PAYLOAD_BYTES, root="payload")
    status = _status(run_id)
    if status in TERMINAL:
        raise IllegalTransition("sent events", run_id, status)
    event = Event(run_id=run_id, name=name, payload=text, idempotency_key=idempotency_key or "", sent_at=DatabaseNow())
    with brief_lock(db, [run_id]) if actor or idempotency_key is not None else nullcontext():
        Event.objects.using(db.alias).bulk_create([event], ignore_conflicts=idempotency_key is not None)
        if actor:
            by = Verb(actor, f"{name}: {reason}" if reason else name)
            audit(db, [(run_id, status)], "send_event", by)
    wake_after_commit(db, run_id)


def reason_of(run_id: UUID, verb: str) -> str:
    """The reason that was given with the latest ``verb`` on this run."""
    entries = Audit.objects.using(Database().alias).filter(run_id=run_id, verb=verb).order_by("-pk")
    return entries.values_list("reason", flat=True).first() or ""


def _status(run_id: UUID) -> str:
    status = Run.objects.using(Database().alias).filter(pk=run_id).values_list("status", flat=True).first()
    if status is None:
        raise RunNotFound(run_id)
    return status


def _batches(run_ids: Iterable[Any]) -> Iterable[Sequence[UUID]]:
    batch: list[UUID] = []
    for one in run_ids:
        batch.append(getattr(one, "pk", one))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch

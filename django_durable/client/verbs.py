"""The verbs on runs, one or many. What they queue or end is told to the queue and to parents after the commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from typing import Any, cast
from uuid import UUID

from django.db.models import Q, QuerySet

from ..conf import durable_settings
from ..core.journal.journal import NewRun
from ..core.journal.states import TERMINAL, Status
from ..core.names import check_name
from ..core.payloads.codec import encode
from ..core.registry import find
from ..core.sizes import note_size
from ..exceptions import CannotFork, DurableError, IllegalTransition, RunNotFound, TooManyEvents
from ..models import Audit, Run
from ..signals import run_cancelled
from ..store import forking, transitions
from ..store.auditing import Verb, audit, tell
from ..store.database import Database
from ..store.forking import like
from ..store.locking import brief_lock
from ..store.sending import Inbox, find_event, inbox_of, lacks, store_event
from ..store.starting import start_runs
from .announcing import announce_after_commit, announce_enqueued
from .pushing import push_after_commit, wake_after_commit, wake_parents_after_commit

BATCH = 500


def cancel_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> int:
    """Ask these runs and their attached descendants to stop; how many were live. Ids, handles or a queryset will do.

    Raises RunLocked where another transaction holds one of them for long: what is done by then stays done (in the
    caller's transaction, if there is one), and the call may be made again.
    """
    db = Database()
    count = 0
    for ids in _batches(run_ids):
        done = transitions.cancel(db, ids, Verb(actor, reason))
        count += done.count
        tell_cancelled(db, done)
    return count


def tell_cancelled(db: Database, done: transitions.Cancelling) -> None:
    """Tell receivers, the queue and parents of a cancellation, once the caller's transaction has committed."""
    announce_after_commit(db, run_cancelled, done.ended)
    push_after_commit(db, transitions.as_ready(done.queued))
    wake_parents_after_commit(db, done.ended)


def pause_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> int:
    """Put these runs aside until somebody resumes them; how many could be, and were not paused before. Their children
    go on. Raises RunLocked, as ``cancel_runs`` does."""
    db = Database()
    return sum(transitions.pause(db, ids, Verb(actor, reason)) for ids in _batches(run_ids))


def pause(run_id: UUID, *, reason: str = "", actor: str = "") -> None:
    if not pause_runs([run_id], reason=reason, actor=actor) and not _is_pausing(run_id):
        raise IllegalTransition("paused", run_id, _status(run_id))


def _is_pausing(run_id: UUID) -> bool:
    asked = Q(status=Status.PAUSED) | Q(status=Status.RUNNING, pause_requested_at__isnull=False)
    return Run.objects.using(Database().alias).filter(asked, pk=run_id).exists()


def resume_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> int:
    """Let paused, blocked, failed and cancelled runs go on; how many of these runs could. Raises RunLocked, as
    ``cancel_runs`` does."""
    db = Database()
    count = 0
    for ids in _batches(run_ids):
        runs = transitions.resume(db, ids, Verb(actor, reason))
        count += len(runs)
        push_after_commit(db, transitions.as_ready([run for run in runs if run.status != Status.RUNNING]))
    return count


def resume(run_id: UUID, *, reason: str = "", actor: str = "") -> None:
    if not resume_runs([run_id], reason=reason, actor=actor):
        raise IllegalTransition("resumed", run_id, _status(run_id))


def rerun(run_id: UUID, *, reason: str = "", actor: str = "") -> UUID:
    """Start a new run at once, with the workflow, the input and the options of this one; its id. Raises RunNotFound,
    and RunLocked where another transaction is deleting the run for long."""
    made = rerun_runs([run_id], reason=reason, actor=actor)
    if not made:
        raise RunNotFound(run_id)
    return made[0]


def rerun_runs(run_ids: Iterable[UUID], *, reason: str = "", actor: str = "") -> list[UUID]:
    """Start a new run for each of these, with its workflow, input and options; the new ids, in the order of the old
    ones. A run that is gone, or whose input is, is passed by."""
    db = Database()
    return [new.id for ids in _batches(run_ids) for new in _rerun(db, ids, Verb(actor, reason))]


def _rerun(db: Database, ids: Sequence[UUID], by: Verb) -> list[NewRun]:
    with db.transaction():
        found = like(db, ids)
        new = [found[run_id][1] for run_id in ids if run_id in found]
        ready = start_runs(db, new) if new else []
        pairs = found.values()
        tell(db, "rerun", [(old.pk, old.status, by.about(str(new.id))) for old, new in pairs])
        tell(db, "rerun", [(new.id, "", by.about(f"of {old.pk}")) for old, new in pairs])
    push_after_commit(db, ready)
    _announce(db, new)
    return new


def fork(run_id: UUID, from_step: str, *, reason: str = "", actor: str = "") -> UUID:
    """Start a new run as ``rerun`` does, with what is journaled before ``from_step`` (a path); its id.

    Raises RunNotFound, CannotFork, and RunLocked where another transaction is deleting the run for long.
    """
    return _fork(Database(), run_id, from_step, Verb(actor, reason))


def fork_runs(run_ids: Iterable[UUID], from_step: str, *, reason: str = "", actor: str = "") -> list[UUID]:
    """Start a new run for each of these, with what it had journaled before ``from_step``; the new ids, in the order of
    the old ones. A run that is gone, or that cannot be forked from there, is passed by."""
    db = Database()
    made: list[UUID] = []
    for ids in _batches(run_ids):
        for run_id in ids:
            with suppress(RunNotFound, CannotFork):
                made.append(_fork(db, run_id, from_step, Verb(actor, reason)))
    return made


def _fork(db: Database, run_id: UUID, from_step: str, by: Verb) -> UUID:
    new, ready = forking.fork(db, run_id, from_step, by)
    push_after_commit(db, ready)
    _announce(db, [new])
    return new.id


def _announce(db: Database, new: Sequence[NewRun]) -> None:
    for name in dict.fromkeys(run.workflow for run in new):
        announce_enqueued(db, find(name), [run for run in new if run.workflow == name])


def send_event(
    run_id: UUID,
    name: str,
    payload: Any = None,
    idempotency_key: str | None = None,
    *,
    reason: str = "",
    actor: str = "",
) -> int:
    """Store an event for the run in the caller's transaction; its id. The same idempotency key sends once, and gives
    the id of the event that was sent, also when the run is over.

    It never waits for the run: that is woken after the commit, and by the sweep where somebody holds its row just
    then. Only the same key in another open transaction is waited for, since how that ends decides: raises RunLocked.
    In the run's audit where an ``actor`` is given: events of programs are many, and stored anyway. Raises TooManyEvents
    where the run has as many that it has not taken yet as it may have, and does not wait for just this one; who sends
    at the same time is not counted.
    """
    db = Database()
    check_name("event", name)
    if idempotency_key is not None:
        check_name("idempotency key", idempotency_key)
    settings = durable_settings()
    text = encode(payload, limit=settings.MAX_PAYLOAD_BYTES, root="payload")
    note_size(text, settings.WARN_PAYLOAD_BYTES, run_id, f"event {name!r}")
    inbox, key = inbox_of(db, run_id, settings.MAX_OPEN_EVENTS), idempotency_key or ""
    if inbox is None:
        raise RunNotFound(run_id)
    if (refusal := _refusal(run_id, inbox, len(text))) is not None:
        if key and (known := find_event(db, run_id, key)) is not None:
            return known
        # What it takes at once it may have: events that it never asks for must not keep it from going on.
        if not (isinstance(refusal, TooManyEvents) and lacks(db, run_id, name)):
            raise refusal
    with brief_lock(db, [run_id]) if actor or key else nullcontext():
        sent = store_event(db, run_id, name, text, key)
        if sent is not None and actor:
            audit(db, [(run_id, inbox.status)], "send_event", Verb(actor, reason).about(name))
        # What was waited for is committed, and so is seen here, or was seen before.
        event_id = sent if sent is not None else find_event(db, run_id, key)
    wake_after_commit(db, run_id)
    return cast(int, event_id)


def _refusal(run_id: UUID, inbox: Inbox, size: int) -> DurableError | None:
    """Why the run takes no event of ``size`` bytes now; None where it does."""
    settings = durable_settings()
    if inbox.status in TERMINAL:
        return IllegalTransition("sent events", run_id, inbox.status)
    for setting, wanted in (("MAX_OPEN_EVENTS", inbox.events + 1), ("MAX_OPEN_EVENT_BYTES", inbox.bytes + size)):
        if wanted > (limit := getattr(settings, setting)):
            return TooManyEvents(run_id, inbox.events, inbox.bytes, setting, limit)
    return None


def reason_of(run_id: UUID, verb: str) -> str:
    """The reason that was given with the latest ``verb`` on this run."""
    entries = Audit.objects.using(Database().alias).filter(run_id=run_id, verb=verb).order_by("-pk")
    return entries.values_list("reason", flat=True).first() or ""


def _status(run_id: UUID) -> str:
    status = Run.objects.using(Database().alias).filter(pk=run_id).values_list("status", flat=True).first()
    if status is None:
        raise RunNotFound(run_id)
    return status


def _batches(runs: Iterable[Any]) -> Iterable[Sequence[UUID]]:
    """The ids of these runs (ids themselves, rows, handles, a queryset), each once, in portions."""
    given = runs.values_list("pk", flat=True) if isinstance(runs, QuerySet) else runs
    ids = list(dict.fromkeys(map(_id_of, given)))
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


def _id_of(run: Any) -> UUID:
    """Raises ValueError for a text that is no id."""
    if isinstance(run, str):
        return UUID(run)
    found: UUID = run if isinstance(run, UUID) else run.id
    return found

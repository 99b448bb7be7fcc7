"""New runs that are made like others: from the beginning, or from what one of them had journaled before a step."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from ..core.forking import cut
from ..core.ids import uuid7
from ..core.journal.fan_out import of_another_run
from ..core.journal.journal import Entry, NewRun
from ..core.journal.states import EntryStatus, Kind, PayloadKind
from ..core.registry import Definition, find
from ..exceptions import CannotFork, PayloadUndecodable, RunNotFound
from ..models import JournalEntry, Payload, Run, Tag
from ..queues.ready import Ready
from .auditing import Verb, audit
from .database import Database
from .locking import brief_lock
from .sql import pruning
from .starting import start_runs

logger = logging.getLogger("django_durable.store")


def like(db: Database, run_ids: Sequence[UUID]) -> dict[UUID, tuple[Run, NewRun]]:
    """Each of these runs, and a new one with its workflow, input, options and tags. Those whose input is gone lack.

    Retention leaves them alone until the caller's transaction has ended. Raises RunLocked.
    """
    with brief_lock(db, run_ids):
        db.rows(pruning.lock_kept(db.dialect), ids=db.dialect.list(run_ids))
    inputs = Payload.objects.using(db.alias).filter(run_id__in=list(run_ids), kind=PayloadKind.INPUT)
    texts = dict(inputs.values_list("run_id", "data"))
    tags: dict[UUID, list[str]] = {}
    for run_id, name in Tag.objects.using(db.alias).filter(run_id__in=texts).values_list("run_id", "name"):
        tags.setdefault(run_id, []).append(name)
    runs = Run.objects.using(db.alias).filter(pk__in=texts)
    return {run.pk: (run, _like(run, texts[run.pk], tags.get(run.pk, []))) for run in runs}


def _like(run: Run, text: str, tags: Iterable[str]) -> NewRun:
    known = find(run.workflow)
    return NewRun(
        uuid7(),
        # A workflow that was renamed starts runs under its new name only.
        run.workflow if known is None else known.name,
        text,
        run.queue,
        run.priority,
        run.max_attempts,
        deadline_after=run.timeout,
        limit_key=run.limit_key if known is None else _limit_key(known, run, text),
        tags=tuple(tags),
    )


def _limit_key(known: Definition, run: Run, text: str) -> str | None:
    """As the code says it now: it may have had no limit, or another ``concurrency_key``, when the old one was started.

    Where it cannot make anything of the old input, the new run shares the old one's limit: operators start it for good
    reasons, most of all when something is wrong.
    """
    try:
        return known.limit_key(text)
    except Exception as error:
        # The message and the traceback may have the input's words in them.
        kind = type(error).__name__
        logger.warning("run %s gave no concurrency_key for another like it (%s): it shares its own", run.pk, kind)
        return run.limit_key


def fork(db: Database, run_id: UUID, from_step: str, by: Verb) -> tuple[NewRun, list[Ready]]:
    """Start a run like ``run_id`` that has done what that one had before ``from_step``. Raises RunNotFound, CannotFork,
    RunLocked.

    Events stay where they were sent: those that were taken by then are in the journal, nobody knows for whom the
    others were meant. Children that had ended are in the journal too, others are started anew.
    """
    with db.transaction():
        if run_id not in (found := like(db, [run_id])):
            raise RunNotFound(run_id)
        old, new = found[run_id]
        rows = {row.path: row for row in JournalEntry.objects.using(db.alias).filter(run_id=run_id)}
        kept = _taken_over(run_id, map(_entry, rows.values()), from_step)
        ready = start_runs(db, [new])
        Run.objects.using(db.alias).filter(pk=new.id).update(forked_from=run_id)
        JournalEntry.objects.using(db.alias).bulk_create(_row(new.id, rows[entry.path], entry) for entry in kept)
        _copy_notes(db, run_id, new.id)
        _audit(db, old, new, from_step, by)
    return new, ready


def _taken_over(run_id: UUID, entries: Iterable[Entry], from_step: str) -> list[Entry]:
    try:
        kept = cut(run_id, entries, from_step)
        maps = {entry.path: of_another_run(entry.value) for entry in kept if entry.kind == Kind.MAP}
        return [replace(entry, value=maps.get(entry.path, entry.value)) for entry in kept]
    except PayloadUndecodable as error:
        # Of many that are forked together the others are.
        raise CannotFork(run_id, from_step, f"its journal is damaged ({error.reason}).") from error


def _entry(row: JournalEntry) -> Entry:
    return Entry(
        path=row.path,
        kind=Kind(row.kind),
        status=EntryStatus(row.status),
        seq=row.seq,
        attempts=row.attempts,
        value=row.value,
        error=row.error,
        wake_at=row.wake_at,
        awaits=row.awaits,
        undo=row.undo,
    )


def _row(run_id: UUID, row: JournalEntry, entry: Entry) -> JournalEntry:
    return JournalEntry(
        run_id=run_id,
        path=entry.path,
        seq=entry.seq,
        kind=entry.kind,
        status=entry.status,
        attempts=entry.attempts,
        value=entry.value,
        error=entry.error,
        started_at=row.started_at,
        finished_at=row.finished_at if entry.status in (EntryStatus.SUCCEEDED, EntryStatus.FAILED) else None,
        wake_at=entry.wake_at,
        awaits=entry.awaits,
        undo=entry.undo,
        token=row.token,
    )


def _copy_notes(db: Database, old: UUID, new: UUID) -> None:
    """All of them: a replay says nothing again that came before what is journaled, and nobody knows which those are.

    What was said after the step stands too, until the fork says it anew.
    """
    notes = Payload.objects.using(db.alias).filter(run_id=old, kind=PayloadKind.NOTES)
    texts = notes.values_list("data", flat=True)
    Payload.objects.using(db.alias).bulk_create(
        Payload(run_id=new, kind=PayloadKind.NOTES, data=text) for text in texts
    )


def _audit(db: Database, old: Run, new: NewRun, from_step: str, by: Verb) -> None:
    audit(db, [(old.pk, old.status)], "fork", by.about(f"{new.id} from {from_step!r}"))
    audit(db, [(new.id, "")], "fork", by.about(f"of {old.pk} from {from_step!r}"))

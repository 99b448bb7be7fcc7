"""What many runs made durable in one go: one transaction, each run fenced by its own token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.utils import IntegrityError

from ..conf import durable_settings
from ..core.flow.lease import Lease
from ..core.journal.annotations import merged
from ..core.journal.journal import Write
from ..core.journal.outcomes import Paused, Released
from ..core.journal.states import PayloadKind, Status
from ..queues.ready import Ready
from .batch import Batch, Rows
from .database import Database, PrivateDatabase, Row, as_json
from .dialects import Dialect
from .fencing import still_held
from .lone import Lone
from .lone_step import write_step
from .receipts import Receipt, Receipts, settle_ready
from .record_sets import IDS, Given, told, written
from .sql import commits
from .statements import Typed, typed

HELD_PAUSE = 0.005
"""Seconds after which a write is worth another try whose row somebody held: as a rule a heartbeat, for a moment."""


def write_batch(db: Database, writes: Sequence[tuple[Lease, Write]]) -> dict[UUID, Receipt]:
    """Make the writes durable, each run at most once in ``writes``; a receipt for each.

    A suspect that journals something is none any more. Raises what the database raises: then nothing of the batch is
    known to be stored.
    """
    if len(writes) == 1:
        [(lease, write)] = writes
        if (receipt := write_step(db, lease, write, _of_one_step, db.rows)) is not None:
            _find_lost(db, writes, [receipt])
            return {lease.run_id: receipt}
    batch = Batch(db.dialect)
    for lease, write in writes:
        batch.add(lease, write)
    receipts = Receipts(batch)
    # Whoever ends is cleared by that.
    cleared = {db.dialect.key(lease.run_id): lease for lease, write in writes if lease.is_suspect and _clears(write)}
    try:
        at_once = batch.is_plain and db.dialect.has_writing_ctes and not cleared
        if not (at_once and _is_written_at_once(db, batch, receipts)):
            with db.transaction():
                _write_in_turn(db, batch, receipts, cleared)
        _find_lost(db, writes, receipts)
    except BaseException:
        for _, write in writes:
            if write.log is not None:
                # Written again, all else of it comes out the same.
                write.log.is_in_doubt = True
        raise
    for key, lease in cleared.items():
        lease.is_suspect = not receipts[key].is_held
    by_run = {}
    for (lease, write), receipt in zip(writes, receipts, strict=True):
        if receipt.ready:
            settle_ready(receipt, lease.run_id, write.outcome)
        by_run[lease.run_id] = receipt
    return by_run


def write_step_at_once(db: PrivateDatabase, lease: Lease, write: Write) -> Receipt | None:
    """As ``write_batch``, for who must not sleep. None where it is not known to be stored, and may yet be: somebody who
    may wait has to write it all the same."""
    receipt = write_step(db, lease, write, _of_one_step, db.rows_at_once)
    # Whether the lease is lost another statement has to say.
    return receipt if receipt is not None and receipt.is_held else None


def _clears(write: Write) -> bool:
    """Whether a suspect's write journals something new, and does not end it: who ends is cleared by that."""
    goes_on = write.outcome is None or isinstance(write.outcome, Released | Paused)
    return bool(write.entries) and goes_on


def _is_written_at_once(db: Database, batch: Batch, receipts: Receipts) -> bool:
    """Write all in one statement; False where nothing is written, and has to be in turn."""
    # Where the statement fails it would take the caller's transaction along: all that an atomic step has done.
    may_fail = not db.connection.in_atomic_block
    if batch.logged and not may_fail:
        return False
    try:
        _write_at_once(db, batch, receipts, are_new=batch.are_new and may_fail)
    except IntegrityError:
        if not may_fail:
            raise
        # Lines of a branch came between snapshot and fence, or an entry is there, of a commit that nobody was told of.
        # Statements that begin behind the fence see them.
        return False
    return True


def _write_at_once(db: Database, batch: Batch, receipts: Receipts, *, are_new: bool) -> None:
    given, parameters = told(batch)
    may_undo = any(row["undoes"] for row in batch.leaving)
    rows = db.rows(_at_once(db.dialect, given, db.dialect.now, are_new=are_new, may_undo=may_undo), **parameters)
    if batch.logged:
        # Lines of before that are too many go in a statement of their own: few runs say so much.
        _shorten_logs(db, [(row[0], row[-1]) for row in rows])
        rows = [row[:-1] for row in rows]
    receipts.take_all(rows)


@lru_cache(maxsize=128)
def _at_once(d: Dialect, given: Given, now: str, *, are_new: bool, may_undo: bool) -> Typed:
    """Of ``now``, which is the dialect's, there is as a rule one: to write the statement takes as long as its rows."""
    shapes = {name: shape for name, shape in given if shape is not None}
    names = [name for name, _ in given]
    ids = "" if "claims" in shapes else IDS
    d = Lone(shapes) if shapes else d
    return typed(commits.write_at_once(d, names, are_new=are_new, may_undo=may_undo, ids=ids))


def _of_one_step(d: Dialect, given: Given) -> Typed:
    return _at_once(d, given, d.now, are_new=True, may_undo=False)


def _write_in_turn(db: Database, batch: Batch, receipts: Receipts, cleared: Iterable[Any]) -> None:
    d = db.dialect
    fenced = db.rows(commits.fence(d), claims=written(batch, "claims"))
    if not fenced:
        return
    held = []
    for run_id, token, cancelling, pausing in fenced:
        key = d.key(d.read_key(run_id))
        receipts.hold(key, cancelling, pausing)
        held.append({"id": key, "token": d.key(d.read_key(token))})
    held_json = as_json(held)

    def send(statement: str, **rows: Rows) -> list[Row]:
        [(name, values)] = rows.items()
        given = {"held": held_json, name: as_json(values)}
        return db.rows(commits.with_held(d, statement), **given) if values else []

    send(commits.forget_entries(d), forgotten=batch.forgotten)
    if batch.entries:
        db.rows(commits.with_held(d, commits.insert_entries(d)), held=held_json, entries=written(batch, "entries"))
    send(commits.upsert_payloads(d), payloads=batch.payloads + _merged_notes(db, batch.notes))
    send(commits.clear_suspicion(d), cleared=[{"id": key} for key in cleared])
    send(commits.consume_events(d), consumed=batch.consumed)
    send(commits.answer_events(d), answers=batch.answers)
    _start_children(d, send, batch, receipts)
    added = send(commits.insert_log(d), logged=batch.logged)
    _shorten_logs(db, [(d.key(d.read_key(run_id)), number) for run_id, number in added])
    for row in send(commits.leave(d), leaving=batch.leaving) + send(commits.suspend(d), suspending=batch.suspending):
        receipts.leave(d.key(d.read_key(row[0])), *row[1:])


def _start_children(d: Dialect, send: Callable[..., list[Row]], batch: Batch, receipts: Receipts) -> None:
    parents = {row["id"]: receipts[row["parent_id"]] for row in batch.children}
    orphans = [row for row in batch.children if parents[row["id"]].cancelling and not row["detached"]]
    over = {row["id"] for row in orphans}
    for row in send(commits.insert_children(d), children=batch.children):
        child_id = d.read_key(row[0])
        if row[3] == Status.QUEUED and (key := d.key(child_id)) not in over:
            parents[key].ready.append(Ready(child_id, row[1], row[2], row[4]))
    send(commits.insert_child_inputs(d), children=batch.children)
    send(commits.insert_child_tags(d), tags=batch.tags)
    send(commits.cancel_children(d), children=orphans)


def _merged_notes(db: Database, said: Mapping[UUID, Mapping[str, str]]) -> Rows:
    if not said:
        return []
    d = db.dialect
    stored = {d.read_key(run_id): text for run_id, text in db.rows(commits.load_notes(d), ids=d.ids(said))}
    return [
        {"run_id": d.key(run_id), "kind": PayloadKind.NOTES, "data": merged(stored.get(run_id), notes)}
        for run_id, notes in said.items()
    ]


def _shorten_logs(db: Database, numbers: Sequence[tuple[Any, int | None]]) -> None:
    """Keep the newest lines of runs, given by their keys and the numbers of lines that were added just now."""
    last: dict[Any, int] = {}
    for key, number in numbers:
        last[key] = max(number or 0, last.get(key, 0))
    for key, number in last.items():
        if (upto := number - durable_settings().LOG_LINES) > 0:
            db.rows(commits.shorten_log(), run_id=key, upto=upto)


def _find_lost(db: Database, writes: Sequence[tuple[Lease, Write]], receipts: Iterable[Receipt]) -> None:
    """A row that the fence skipped may merely be held by somebody: only another token means that it is lost."""
    missing = {lease: receipt for (lease, _), receipt in zip(writes, receipts, strict=True) if not receipt.is_held}
    if not missing:
        return
    kept = still_held(db, list(missing))
    for lease, receipt in missing.items():
        receipt.is_lost = lease.token not in kept

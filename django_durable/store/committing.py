"""What many runs made durable in one go: one transaction, each run fenced by its own token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..core.clock import utcnow
from ..core.codec import encode
from ..core.journal import Entry, Write
from ..core.lease import Lease
from ..core.outcomes import (
    Blocked,
    Cancelled,
    Completed,
    Ending,
    Failed,
    Lost,
    Outcome,
    Paused,
    Released,
    Retried,
    Suspended,
)
from ..core.states import PayloadKind, Phase, Status
from ..queues.ready import Ready
from .database import Database, Row, as_json
from .dialects import Dialect
from .sql import commits, leases
from .starting import is_soon, run_row

HELD_PAUSE = 0.005
"""Seconds after which a write is worth another try whose row somebody held: as a rule a heartbeat, for a moment."""


@dataclass(slots=True)
class Receipt:
    """What became of one run's write. ``status`` is the run's new one, None while it goes on running; ``ready`` are
    runs that workers should hear of: queued ones, and those that come due before the next sweep.

    Not held and not lost: somebody held the row; the write goes into the next batch.
    """

    is_held: bool = False
    is_lost: bool = False
    cancelling: bool = False
    pausing: bool = False
    status: str | None = None
    parent_id: UUID | None = None
    parent_path: str = ""
    ready: list[Ready] = field(default_factory=list)


@dataclass(slots=True)
class _Batch:
    """The rows of a batch by statement, ready to be sent."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    entries: list[dict[str, Any]] = field(default_factory=list)
    payloads: list[dict[str, Any]] = field(default_factory=list)
    leaving: list[dict[str, Any]] = field(default_factory=list)
    suspending: list[dict[str, Any]] = field(default_factory=list)
    children: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    consumed: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    forgotten: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        return not (self.suspending or self.children or self.consumed or self.answers or self.forgotten)


def write_batch(
    db: Database, writes: Sequence[tuple[Lease, Write]], *, clears_suspicion: bool = False
) -> dict[UUID, Receipt]:
    """Make the writes durable, each run at most once in ``writes``; a receipt for each.

    Raises what the database raises: then nothing of the batch is known to be stored.
    """
    d = db.dialect
    batch = _Batch()
    for lease, write in writes:
        _gather(d, batch, lease, write)
    receipts = {lease.run_id: Receipt() for lease, _ in writes}
    if batch.is_plain and d.has_writing_ctes and not clears_suspicion:
        _take_rows(d, receipts, db.rows(commits.write_at_once(d), **_parameters(batch)))
    else:
        with db.transaction():
            _write_in_turn(db, batch, receipts, clears_suspicion)
    _find_lost(db, writes, receipts)
    for lease, write in writes:
        receipt = receipts[lease.run_id]
        if receipt.status == Status.WAITING and not _wakes_soon(write.outcome):
            receipt.ready = [run for run in receipt.ready if run.id != lease.run_id]
    return receipts


def _wakes_soon(outcome: Outcome | None) -> bool:
    match outcome:
        case Retried(delay=seconds):
            return is_soon(seconds)
        case Suspended(wake_at=when, wake_after=seconds):
            at = None if when is None else (when - utcnow()).total_seconds()
            return any(left is not None and is_soon(left) for left in (at, seconds))
        case _:
            return False


def _parameters(batch: _Batch) -> dict[str, str]:
    return {
        "claims": as_json(batch.claims),
        "entries": as_json(batch.entries),
        "payloads": as_json(batch.payloads),
        "leaving": as_json(batch.leaving),
    }


def _write_in_turn(db: Database, batch: _Batch, receipts: dict[UUID, Receipt], clears_suspicion: bool) -> None:
    d = db.dialect
    fenced = db.rows(commits.fence(d), claims=as_json(batch.claims))
    for run_id, _, cancelling, pausing in fenced:
        receipt = receipts[d.read_key(run_id)]
        receipt.is_held, receipt.cancelling, receipt.pausing = True, bool(cancelling), bool(pausing)
    if not fenced:
        return
    held = as_json([{"id": d.key(d.read_key(row[0])), "token": d.key(d.read_key(row[1]))} for row in fenced])

    def send(statement: str, **rows: list[dict[str, Any]]) -> list[Row]:
        name, values = next(iter(rows.items())) if rows else ("", [None])
        if not values:
            return []
        parameters = {name: as_json(values)} if name else {}  # type: ignore[arg-type]
        return db.rows(commits.with_held(d, statement), held=held, **parameters)

    send(commits.forget_entries(d), forgotten=batch.forgotten)
    send(commits.insert_entries(d), entries=batch.entries)
    send(commits.upsert_payloads(d), payloads=batch.payloads)
    if clears_suspicion:
        send(commits.clear_suspicion())
    send(commits.consume_events(d), consumed=batch.consumed)
    send(commits.answer_events(d), answers=batch.answers)
    orphans = [row for row in batch.children if receipts[UUID(row["parent_id"])].cancelling and not row["detached"]]
    over = {row["id"] for row in orphans}
    parents = {row["id"]: UUID(row["parent_id"]) for row in batch.children}
    for row in send(commits.insert_children(d), children=batch.children):
        child_id = d.read_key(row[0])
        if row[3] == Status.QUEUED and (key := d.key(child_id)) not in over:
            receipts[parents[key]].ready.append(Ready(child_id, row[1], row[2], row[4]))
    send(commits.insert_child_inputs(d), children=batch.children)
    send(commits.insert_child_tags(d), tags=batch.tags)
    send(commits.cancel_children(d), children=orphans)
    for row in send(commits.leave(d), leaving=batch.leaving) + send(commits.suspend(d), suspending=batch.suspending):
        _take_status(d, receipts[d.read_key(row[0])], row[0], *row[1:])


def _take_rows(d: Dialect, receipts: dict[UUID, Receipt], rows: list[Row]) -> None:
    for run_id, cancelling, pausing, status, *left in rows:
        receipt = receipts[d.read_key(run_id)]
        receipt.is_held, receipt.cancelling, receipt.pausing = True, bool(cancelling), bool(pausing)
        if status is not None:
            _take_status(d, receipt, run_id, status, *left)


def _take_status(
    d: Dialect,
    receipt: Receipt,
    run_id: Any,
    status: str,
    parent_id: Any,
    queue: str,
    priority: int,
    parent_path: str = "",
) -> None:
    receipt.status = status
    receipt.parent_id = None if parent_id is None else d.read_key(parent_id)
    receipt.parent_path = parent_path
    if status in (Status.QUEUED, Status.WAITING):
        receipt.ready.append(Ready(d.read_key(run_id), queue, priority))


def _find_lost(db: Database, writes: Sequence[tuple[Lease, Write]], receipts: dict[UUID, Receipt]) -> None:
    """A row that the fence skipped may merely be held by somebody: only another token means that it is lost."""
    missing = [lease for lease, _ in writes if not receipts[lease.run_id].is_held]
    if not missing:
        return
    kept = still_held(db, missing)
    for lease in missing:
        receipts[lease.run_id].is_lost = lease.token not in kept


def still_held(db: Database, held: Sequence[Lease]) -> set[UUID]:
    """Those of our tokens that still stand in their runs."""
    d = db.dialect
    return {d.read_key(row[0]) for row in db.rows(leases.still_held(d), claims=claim_rows(d, held))}


def claim_rows(d: Dialect, held: Sequence[Lease]) -> str:
    """Run ids and tokens for ``leases.CLAIM``."""
    return as_json([{"id": d.key(lease.run_id), "token": d.key(lease.token)} for lease in held])


def _gather(d: Dialect, batch: _Batch, lease: Lease, write: Write) -> None:
    run_id = d.key(lease.run_id)
    batch.claims.append({"id": run_id, "token": d.key(lease.token)})
    for entry in write.entries.values():
        batch.entries.append(_entry_row(d, run_id, entry))
    for child in write.children:
        batch.children.append(run_row(d, child))
        batch.tags += [{"parent_id": run_id, "run_id": d.key(child.id), "name": tag} for tag in child.tags]
    batch.forgotten += [{"run_id": run_id, "path": path} for path in write.forgotten]
    for event_id, path in write.consumed.items():
        batch.consumed.append({"run_id": run_id, "event_id": event_id, "path": path})
    for path, response in write.answers.items():
        batch.answers.append({"run_id": run_id, "path": path, "response": response})
    if write.progress is not None:
        batch.payloads.append({"run_id": run_id, "kind": PayloadKind.PROGRESS, "data": write.progress})
    if write.unwanted:
        unwanted = "\n".join(write.unwanted)
        batch.payloads.append({"run_id": run_id, "kind": PayloadKind.UNWANTED, "data": unwanted})
    _gather_outcome(d, batch, run_id, write)


def _entry_row(d: Dialect, run_id: Any, entry: Entry) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "path": entry.path,
        "seq": entry.seq,
        "kind": entry.kind,
        "status": entry.status,
        "attempts": entry.attempts,
        "value": entry.value,
        "error": entry.error,
        "seconds": entry.seconds,
        "wake_at": d.instant(entry.wake_at),
        "wake_after": entry.wake_after,
        "awaits": entry.awaits,
        "undo": entry.undo,
    }


def _gather_outcome(d: Dialect, batch: _Batch, run_id: Any, write: Write) -> None:
    def payload(kind: PayloadKind, data: str) -> None:
        batch.payloads.append({"run_id": run_id, "kind": kind, "data": data})

    def leave(
        status: Status, reason: str = "", fingerprint: str = "", phase: Phase | None = None, undoes: bool = False
    ) -> None:
        batch.leaving.append(
            {
                "run_id": run_id,
                "status": status,
                "block_reason": reason,
                "fingerprint": fingerprint,
                "phase": phase,
                "undoes": undoes,
            }
        )

    match write.outcome:
        case None | Lost():
            pass
        case Completed(output, undoes, unvisited):
            leave(Status.SUCCEEDED, undoes=undoes)
            if unvisited:
                payload(PayloadKind.MISSED, encode(list(unvisited)))
            payload(PayloadKind.OUTPUT, output)
        case Failed(error):
            leave(Status.FAILED)
            payload(PayloadKind.ERROR, encode(error))
        case Ending(phase, error):
            leave(Status.QUEUED, phase=phase)
            if error is not None:
                payload(PayloadKind.ERROR, encode(error))
        case Cancelled(error):
            leave(Status.CANCELLED)
            if error is not None:
                payload(PayloadKind.ERROR, encode(error))
        case Released() | Paused():
            # The statement makes it paused where that is still asked for.
            leave(Status.QUEUED)
        case Blocked(reason, text, fingerprint):
            leave(Status.BLOCKED, reason, fingerprint)
            payload(PayloadKind.BLOCK, encode({"message": text}))
        case Suspended(waiting_on, wake_at, wake_after, _):
            batch.suspending.append(_wait_row(d, run_id, waiting_on, wake_at, wake_after, None))
        case Retried(error, attempt, delay):
            batch.suspending.append(_wait_row(d, run_id, "retry:run", None, delay, attempt))
            payload(PayloadKind.RETRY, encode(error))


def _wait_row(
    d: Dialect, run_id: Any, waiting_on: str, wake_at: Any, wake_after: float | None, attempt: int | None
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "waiting_on": waiting_on,
        "wake_at": d.instant(wake_at),
        "wake_after": wake_after,
        "attempt": attempt,
    }

"""The rows of one commit, by statement: what several runs made durable in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..core.flow.lease import Lease
from ..core.journal.journal import Entry, NewRun, Write
from ..core.journal.log import Log
from ..core.journal.outcomes import (
    TRIED_AGAIN,
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
from ..core.journal.states import PayloadKind, Phase, Status
from ..core.payloads.codec import encode
from .dialects import Dialect
from .starting import run_row

Rows = list[dict[str, Any]]
"""For one of the record sets that ``sql.commits`` names; None stands for what most rows have there."""


@dataclass(slots=True)
class Batch:
    """Takes one run's write after the other; each run occurs once."""

    dialect: Dialect
    keys: list[Any] = field(default_factory=list)
    """Of the runs, as ``Dialect.key`` writes them."""
    claims: list[Lease] = field(default_factory=list)
    entries: list[tuple[Any, Entry]] = field(default_factory=list)
    """Each with its run's id."""
    payloads: Rows = field(default_factory=list)
    leaving: Rows = field(default_factory=list)
    suspending: Rows = field(default_factory=list)
    children: Rows = field(default_factory=list)
    tags: Rows = field(default_factory=list)
    consumed: Rows = field(default_factory=list)
    answers: Rows = field(default_factory=list)
    forgotten: Rows = field(default_factory=list)
    notes: dict[UUID, dict[str, str]] = field(default_factory=dict)
    """What each run is annotated with: merged, under its lock, with what is stored."""
    logged: Rows = field(default_factory=list)
    are_new: bool = True
    """Whether no entry is known to be there already."""
    has_order: bool = False
    """Whether one of its entries takes the place of one that is forgotten."""

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing of what is rare, or has to look at the world after the fence."""
        return not (self.suspending or self.children or self.consumed or self.answers or self.notes or self.has_order)

    def add(self, lease: Lease, write: Write) -> None:
        run_id = self.dialect.key(lease.run_id)
        self.keys.append(run_id)
        self.claims.append(lease)
        for entry in write.entries.values():
            self.entries.append((run_id, entry))
            self.are_new = self.are_new and entry.is_new
        if write.children:
            self._add_children(run_id, write.children)
        if write.forgotten:
            self.forgotten += [{"run_id": run_id, "path": path} for path in write.forgotten]
            self.has_order = self.has_order or not write.forgotten.isdisjoint(write.entries)
        if write.consumed:
            self.consumed += [{"run_id": run_id, "event_id": id_, "path": path} for id_, path in write.consumed.items()]
        if write.answers:
            self.answers += [{"run_id": run_id, "path": path, "response": text} for path, text in write.answers.items()]
        if write.progress is not None:
            self._add_payload(run_id, PayloadKind.PROGRESS, write.progress)
        if write.notes:
            self.notes[lease.run_id] = write.notes
        if write.log is not None:
            self._add_log(run_id, write.log)
        if write.unwanted:
            self._add_payload(run_id, PayloadKind.UNWANTED, "\n".join(write.unwanted))
        self._add_outcome(run_id, write.outcome)

    def _add_children(self, run_id: Any, children: Sequence[NewRun]) -> None:
        for child in children:
            self.children.append(run_row(self.dialect, child))
            child_id = self.dialect.key(child.id)
            self.tags += [{"parent_id": run_id, "run_id": child_id, "name": tag} for tag in child.tags]

    def _add_log(self, run_id: Any, log: Log) -> None:
        self.logged += [
            {
                "run_id": run_id,
                "number": number,
                "at": self.dialect.instant(line.at),
                "level": line.level,
                "scope": line.scope or None,
                "message": line.message,
                "place": line.place,
                "again": line.is_again or None,
                "attempt": line.attempt,
                "seconds": line.seconds,
            }
            for number, line in enumerate(log.to_send(), 1)
        ]

    def _add_payload(self, run_id: Any, kind: PayloadKind, data: str) -> None:
        self.payloads.append({"run_id": run_id, "kind": kind, "data": data})

    # --- outcomes ------------------------------------------------------------------------------

    def _add_outcome(self, run_id: Any, outcome: Outcome | None) -> None:
        match outcome:
            case None | Lost():
                pass
            case Completed(output, undoes, unvisited):
                self._leave(run_id, Status.SUCCEEDED, undoes=undoes)
                if unvisited:
                    self._add_payload(run_id, PayloadKind.MISSED, encode(list(unvisited)))
                self._add_payload(run_id, PayloadKind.OUTPUT, output)
            case Failed(error):
                self._leave(run_id, Status.FAILED, error)
            case Ending(phase, error):
                self._leave(run_id, Status.QUEUED, error, phase=phase)
            case Cancelled(error):
                self._leave(run_id, Status.CANCELLED, error)
            case Released() | Paused():
                # The statement makes it paused where that is still asked for.
                self._leave(run_id, Status.QUEUED)
            case Blocked(reason, text, fingerprint, undoes):
                self._leave(run_id, Status.BLOCKED, reason=reason, fingerprint=fingerprint, undoes=undoes)
                self._add_payload(run_id, PayloadKind.BLOCK, encode({"message": text}))
            case Suspended(waiting_on, wake_at, wake_after, _, in_time):
                self._wait(run_id, waiting_on, self.dialect.instant(wake_at), wake_after, in_time=in_time)
            case Retried(error, attempt, delay):
                self._wait(run_id, TRIED_AGAIN, None, delay, attempt=attempt)
                self._add_payload(run_id, PayloadKind.RETRY, encode(error))

    def _leave(
        self,
        run_id: Any,
        status: Status,
        error: dict[str, Any] | None = None,
        *,
        reason: str = "",
        fingerprint: str = "",
        phase: Phase | None = None,
        undoes: bool = False,
    ) -> None:
        self.leaving.append(
            {
                "run_id": run_id,
                "status": status,
                "block_reason": reason or None,
                "fingerprint": fingerprint or None,
                "phase": phase,
                "undoes": undoes or None,
            }
        )
        if error is not None:
            self._add_payload(run_id, PayloadKind.ERROR, encode(error))

    def _wait(
        self,
        run_id: Any,
        waiting_on: str,
        wake_at: Any,
        wake_after: float | None,
        *,
        attempt: int | None = None,
        in_time: bool = False,
    ) -> None:
        self.suspending.append(
            {
                "run_id": run_id,
                "waiting_on": waiting_on,
                "wake_at": wake_at,
                "wake_after": wake_after,
                "attempt": attempt,
                "in_time": in_time,
            }
        )

"""What became of the writes of one commit, read from the rows that its statements return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..core.clock import utcnow
from ..core.flow.lease import Lease
from ..core.journal.outcomes import Outcome, Retried, Suspended
from ..core.journal.states import Status
from ..queues.ready import Ready
from .database import Row
from .dialects import Dialect
from .starting import is_soon


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


class Receipts:
    """One for each run that was written for, and filled row by row."""

    def __init__(self, dialect: Dialect, held: Iterable[Lease]) -> None:
        self._dialect = dialect
        self.by_run = {lease.run_id: Receipt() for lease in held}

    def __getitem__(self, run_id: Any) -> Receipt:
        """The receipt of a run, whose id is as the database writes it."""
        return self.by_run[self._dialect.read_key(run_id)]

    def take_all(self, rows: Sequence[Row]) -> None:
        """What the statement that does all at once returns: the fence's row, and what follows where the run leaves."""
        for run_id, cancelling, pausing, *left in rows:
            self.hold(run_id, cancelling, pausing)
            if left and left[0] is not None:
                self.leave(run_id, *left)

    def hold(self, run_id: Any, cancelling: Any, pausing: Any) -> None:
        """The fence has let the run's write pass."""
        receipt = self[run_id]
        receipt.is_held, receipt.cancelling, receipt.pausing = True, bool(cancelling), bool(pausing)

    def leave(self, run_id: Any, status: str, parent_id: Any, queue: str, priority: int, parent_path: str = "") -> None:
        """The run is not ours any more."""
        receipt = self[run_id]
        receipt.status = status
        receipt.parent_id = None if parent_id is None else self._dialect.read_key(parent_id)
        receipt.parent_path = parent_path
        if status in (Status.QUEUED, Status.WAITING):
            receipt.ready.append(Ready(self._dialect.read_key(run_id), queue, priority))

    def put_first(self, run_id: UUID) -> None:
        """The run was handed back under way."""
        receipt = self.by_run[run_id]
        receipt.ready = [run._replace(is_under_way=True) if run.id == run_id else run for run in receipt.ready]

    def leave_to_the_sweep(self, run_id: UUID, outcome: Outcome | None) -> None:
        """Nobody need hear of a run that waits for longer than until the next sweep."""
        receipt = self.by_run[run_id]
        if receipt.status == Status.WAITING and not _wakes_soon(outcome):
            receipt.ready = [run for run in receipt.ready if run.id != run_id]


def _wakes_soon(outcome: Outcome | None) -> bool:
    match outcome:
        case Retried(delay=seconds):
            return is_soon(seconds)
        case Suspended(wake_at=when, wake_after=seconds):
            at = None if when is None else (when - utcnow()).total_seconds()
            return any(left is not None and is_soon(left) for left in (at, seconds))
        case _:
            return False

"""What became of the writes of one commit, read from the rows that its statements return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..core.clock import utcnow
from ..core.journal.outcomes import Outcome, Released, Retried, Suspended
from ..core.journal.states import Status
from ..queues.ready import Ready
from .batch import Batch
from .database import Row
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
    """One for each run that was written for, in that order, and filled row by row.

    Rows name runs as ``Dialect.key`` writes them: a UUID is hashed by code in Python, several times for each write.
    """

    def __init__(self, batch: Batch) -> None:
        self._dialect = batch.dialect
        self._by_key: dict[Any, Receipt] = {key: Receipt() for key in batch.keys}

    def __iter__(self) -> Iterator[Receipt]:
        return iter(self._by_key.values())

    def __getitem__(self, key: Any) -> Receipt:
        return self._by_key[key]

    def take_all(self, rows: Sequence[Row]) -> None:
        """What the statement that does all at once returns: the fence's row, and what follows where the run leaves."""
        for key, cancelling, pausing, *left in rows:
            self.hold(key, cancelling, pausing)
            if left and left[0] is not None:
                self.leave(key, *left)

    def hold(self, key: Any, cancelling: Any, pausing: Any) -> None:
        """The fence has let the run's write pass."""
        receipt = self._by_key[key]
        receipt.is_held, receipt.cancelling, receipt.pausing = True, bool(cancelling), bool(pausing)

    def leave(self, key: Any, status: str, parent_id: Any, queue: str, priority: int, parent_path: str = "") -> None:
        """The run is not ours any more."""
        receipt = self._by_key[key]
        receipt.status = status
        if parent_id is not None:
            receipt.parent_id, receipt.parent_path = self._dialect.read_key(parent_id), parent_path
        if status in (Status.QUEUED, Status.WAITING):
            receipt.ready.append(Ready(UUID(key), queue, priority))


def settle_ready(receipt: Receipt, run_id: UUID, outcome: Outcome | None) -> None:
    """What ``outcome`` says of who is to hear of the run itself: first of all where it was handed back under way, and
    nobody where it waits for longer than until the next sweep."""
    if isinstance(outcome, Released):
        receipt.ready = [run._replace(is_under_way=True) if run.id == run_id else run for run in receipt.ready]
    elif receipt.status == Status.WAITING and not _wakes_soon(outcome):
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

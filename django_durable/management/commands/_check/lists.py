"""I21: Redis, where it holds the queue, holds nothing but ids of runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID

from ....queues.current import redis_queue
from ....queues.redis import RedisQueue
from ....store.database import Database
from ....store.invariants import Bounds, Finding, Violation
from ....store.invariants.hints import missing, queues_in_use
from ....workflows.registry import workflows

SLICE = 1_000
"""Elements that are asked for at a time: while Redis reads them out it does nothing else."""


class ListsUnread(Exception):
    """Redis did not say what is in a list."""


def look_through(db: Database, finding: Finding, bounds: Bounds, kept: float) -> None:
    """Put into ``finding`` what the lists hold that is no run's id; ``kept`` as for ``missing``. Raises NotInTime,
    ListsUnread."""
    queues = queues_in_use(db, bounds.timeout) | {one.options.queue for one in workflows().values()}
    with closing(redis_queue()) as lists:
        for queue in sorted(queues):
            for found in _slices(lists, queue, min(SLICE, bounds.window)):
                finding.rows += len(found)
                finding.violations += _wrong(db, finding.id, queue, found, bounds, kept)
                if len(finding.violations) >= bounds.limit:
                    del finding.violations[bounds.limit :]
                    return


def _slices(lists: RedisQueue, queue: str, size: int) -> Iterator[list[bytes]]:
    try:
        yield from lists.peek(queue, size)
    except Exception as error:  # of the client, whose errors only the queue knows by name
        raise ListsUnread(f"Redis could not be asked: {type(error).__name__}: {error}") from error


def _wrong(db: Database, name: str, queue: str, found: list[bytes], bounds: Bounds, kept: float) -> list[Violation]:
    where = f"a list of the queue {queue!r}"
    ids = [run_id for run_id in map(_read, found) if run_id is not None]
    strange = len(found) - len(ids)
    wrong = [Violation(name, None, f"{strange} in {where} that are no ids of runs")] if strange else []
    gone = dict.fromkeys(missing(db, ids, kept, bounds.timeout))
    return wrong + [Violation(name, run_id, f"no run, but {where} names it") for run_id in gone]


def _read(element: bytes | str) -> UUID | None:
    try:
        return UUID(element.decode() if isinstance(element, bytes) else element)
    except ValueError:
        return None

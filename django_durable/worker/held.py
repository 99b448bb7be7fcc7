"""Writes whose row somebody holds, an open web transaction as a rule: set aside, so that nobody else waits for it."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import NamedTuple
from uuid import UUID

from ..store.committing import HELD_PAUSE
from .submission import Submission

LONGEST_PAUSE = 0.05
"""Seconds. What is held for long is asked for less and less often, but once it is free it is to go on soon."""


class _Held(NamedTuple):
    """What waits for one row, in order; nothing of it is tried before ``due``."""

    due: float
    submissions: list[Submission]


class HeldRows:
    """By run: what a run submits while its row is held lines up behind. One of it may give up the lease, and what it
    has overtaken would be lost.

    Times are monotonic seconds. Not thread-safe: the committer's mutex guards it.
    """

    def __init__(self) -> None:
        self._rows: dict[UUID, _Held] = {}
        self.next_due = inf
        """When the next row may be tried again; infinity where none is held."""

    def __bool__(self) -> bool:
        return bool(self._rows)

    def put(self, submission: Submission, now: float) -> None:
        """Set aside what was skipped; the pause doubles each time that happens to it."""
        submission.pause = min(2 * submission.pause or HELD_PAUSE, LONGEST_PAUSE)
        due = now + submission.pause
        self._rows[submission.lease.run_id] = _Held(due, [submission])
        self.next_due = min(self.next_due, due)

    def sort(self, waiting: Iterable[Submission], now: float) -> list[Submission]:
        """What may be tried now: those whose time has come, then what waits for no row. The rest stays here."""
        may = self._take_due(now) if now >= self.next_due else []
        for submission in waiting:
            held = self._rows.get(submission.lease.run_id)
            (may if held is None else held.submissions).append(submission)
        return may

    def _take_due(self, now: float) -> list[Submission]:
        due = [run_id for run_id, held in self._rows.items() if held.due <= now]
        taken = [submission for run_id in due for submission in self._rows.pop(run_id).submissions]
        self.next_due = min((held.due for held in self._rows.values()), default=inf)
        return taken

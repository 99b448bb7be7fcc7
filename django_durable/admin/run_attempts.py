"""The attempts of a run as a whole, as its own row of the timeline shows them.

The log has of each that was made again when it failed, since when its worker had had the run, and when the next one
was due. One that has waited was begun by a claim of before: of what lies between no more is said than that it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from ..core.journal.outcomes import TRIED_AGAIN
from ..core.journal.states import LIVE, Status
from ..models import Run
from .journal import Try


class Part(NamedTuple):
    """``what`` is the class of the stylesheet."""

    what: str
    start: datetime
    end: datetime


def is_between(run: Run) -> bool:
    """Whether it has failed, and its next attempt has not begun."""
    return run.status in LIVE and run.attempt > 1 and run.waiting_on == TRIED_AGAIN


def made(run: Run) -> int:
    """How many attempts have begun."""
    return run.attempt - 1 if is_between(run) else run.attempt


def parts_of(run: Run, tries: Sequence[Try], now: datetime) -> list[Part]:
    """What it did and waited for since it was started, as of ``now``. ``tries``: its attempts that were made again."""
    if run.started_at is None:
        return []
    return list(_parts(run, tries, run.started_at, max(run.finished_at or now, run.started_at)))


def _parts(run: Run, tries: Sequence[Try], begun: datetime, over: datetime) -> Iterator[Part]:
    waits = is_between(run)
    for number, one in enumerate(tries, 1):
        # A worker's clock may be another than the database's.
        start, end = (min(max(moment, begun), over) for moment in (one.start, one.end))
        yield Part("scope", begun, end)
        yield Part("failed", start, end)
        is_last = number == len(tries)
        rested = timedelta(seconds=min(one.wait, (over - end).total_seconds()))
        begun = over if is_last and waits else end + rested
        if begun > end:
            yield Part("wait", end, begun)
    if not (waits and tries):
        yield Part("scope", begun, over)
    if waits and run.wake_at and run.wake_at > over:
        yield Part("planned", over, run.wake_at)
    if tries and run.status == Status.FAILED:
        yield Part("failed", over, over)

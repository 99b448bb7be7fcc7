"""Whether the whole comparison ends in its time, at the rate so far."""

from __future__ import annotations

import time


class Pace:
    """Of so many ``visits``, which take about as long as each other, in ``minutes``; None: however long it takes."""

    def __init__(self, minutes: float | None) -> None:
        self._minutes = minutes
        self._began = self._first = time.monotonic()
        self._visits = self._done = 0

    def begin(self, visits: int) -> None:
        """What was before, as installing what is measured, is part of the time and tells nothing of a visit's."""
        self._first = time.monotonic()
        self._visits = visits

    def visited(self) -> None:
        self._done += 1

    @property
    def is_late(self) -> bool:
        if self._minutes is None or not self._done:
            return False
        now = time.monotonic()
        each = (now - self._first) / self._done
        return now - self._began + each * (self._visits - self._done) > 60 * self._minutes

"""Waits until nobody else uses the machine, and tells how much somebody did where that does not come."""

from __future__ import annotations

import time
from collections import deque

import psutil

LOOK_SECONDS = 0.5
BUSY = 0.25
"""Of one core: two idle workers of DBOS take 0.17 for their polling. Whatever else runs then is not ours: nothing is
started yet, or all of it is held."""
POLLING, LOOKS = 0.6, 4
"""On a slow processor two workers that poll each hundredth of a second took 0.4, for as long as they were up. What
stays under this for so many looks is no start of a process, which takes a whole core."""


def wait_until_quiet(patience: float) -> float:
    """The cores that were in use at the last look, at most ``patience`` seconds after the first."""
    ends = time.monotonic() + patience
    last = deque[float](maxlen=LOOKS)
    while True:
        used = float(psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1))
        last.append(used)
        is_steady = len(last) == LOOKS and max(last) < POLLING
        if used < BUSY or is_steady or time.monotonic() > ends:
            return used

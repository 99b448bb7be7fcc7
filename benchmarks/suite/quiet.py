"""Waits until nobody else uses the machine, and tells how much somebody did where that does not come."""

from __future__ import annotations

import time
from collections import deque

import psutil

LOOK_SECONDS, LOOK_AT_POLLS = 0.25, 0.5
"""How long a look is, and where workers are up: what polls a few times a second would be in a shorter one by chance."""
BUSY = 0.25
"""Of one core: two idle workers of DBOS take 0.17 for their polling. Where nothing is started yet, or all of it is
held, whatever else runs is not ours."""
POLLING, APART, LOOKS = 0.6, 0.15, 4
"""On a slow processor two workers that poll each hundredth of a second took 0.4, for as long as they were up. What
stays under this for so many looks, and about the same, is no start of a process."""


def wait_until_quiet(patience: float, *, are_up: bool = False) -> float:
    """The cores that were in use at the last look, at most ``patience`` seconds after the first. ``are_up``: there are
    workers, not held, which may poll."""
    ends = time.monotonic() + patience
    last = deque[float](maxlen=LOOKS)
    seconds = LOOK_AT_POLLS if are_up else LOOK_SECONDS
    while True:
        used = float(psutil.cpu_percent(interval=seconds) / 100 * (psutil.cpu_count() or 1))
        last.append(used)
        polls = are_up and len(last) == LOOKS and max(last) < POLLING and max(last) - min(last) < APART
        if used < BUSY or polls or time.monotonic() > ends:
            return used

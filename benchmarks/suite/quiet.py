"""Waits until nobody else uses the machine, and tells how much somebody did where that does not come."""

from __future__ import annotations

import time

import psutil

LOOK_SECONDS = 0.5
BUSY = 0.25
"""Of one core: two idle workers of DBOS take 0.17 for their polling. Whatever else runs then is not ours: nothing is
started yet, or all of it is held."""


def wait_until_quiet(patience: float) -> float:
    """The cores that were in use at the last look, at most ``patience`` seconds after the first."""
    ends = time.monotonic() + patience
    while True:
        used = psutil.cpu_percent(interval=LOOK_SECONDS) / 100 * (psutil.cpu_count() or 1)
        if used < BUSY or time.monotonic() > ends:
            return float(used)

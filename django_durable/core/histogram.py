"""How long things take, counted in buckets: each a fifth longer than the one before, so that a percentile that is told
from the counts is right within a tenth, and two counts of one bucket can be added."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, log, sqrt

FIRST = 0.001
"""Seconds: all that is shorter is in bucket 0. A day is in bucket 100, the age of the universe in bucket 260."""
GROWTH = 1.2
_LOG_GROWTH = log(GROWTH)


def bucket_of(seconds: float) -> int:
    """The bucket, from 0, in which ``seconds`` count."""
    return int(log(seconds / FIRST) / _LOG_GROWTH) if seconds > FIRST else 0


def seconds_of(bucket: int) -> float:
    """What stands for all of a bucket: it is at most a tenth off from each of them, however short ones aside."""
    return FIRST * sqrt(GROWTH) * GROWTH**bucket


def percentile(counts: Mapping[int, int], share: float) -> float | None:
    """The seconds within which ``share`` (0 … 1) of what was counted by bucket was over; None: nothing was counted."""
    rank = max(1, ceil(share * sum(counts.values())))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return seconds_of(bucket)
    return None

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings

from django_durable.core import clock

# What only Redis has: anybody who reaches it may write to its lists.
collect_ignore_glob = [] if settings.QUEUE == "redis" else ["test_redis_*.py"]


@pytest.fixture(autouse=True)
def _unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))


@pytest.fixture
def as_in_a_worker() -> Iterator[None]:
    """Which handles Ctrl-C itself: no KeyboardInterrupt is of somebody who typed it."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)

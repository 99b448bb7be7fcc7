"""A step that counts, and what happens while its transaction is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test import override_settings

from tests.app.models import Counter

_meanwhile: list[Callable[[], object]] = []


@contextmanager
def during(*meanwhile: Callable[[], object]) -> Iterator[None]:
    _meanwhile[:] = meanwhile
    try:
        yield
    finally:
        _meanwhile.clear()


def count() -> int:
    counter, _ = Counter.objects.get_or_create(name="a")
    counter.value += 1
    counter.save()
    for act in _meanwhile:
        act()
    return counter.value


@contextmanager
def short_lease() -> Iterator[None]:
    """Every body takes longer."""
    with override_settings(DURABLE={**settings.DURABLE, "LEASE_SECONDS": 1e-6, "HEARTBEAT_SECONDS": 1e-7}):
        yield

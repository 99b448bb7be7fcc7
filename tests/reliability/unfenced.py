"""An engine whose writes are fenced by the run's id alone: what the tests of this folder have to find out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django_durable.store import committing
from django_durable.store.dialects import DIALECTS, Dialect
from django_durable.store.sql import commits, leases

FENCED = "r.lease_token = i.token"
CURRENT, GIVEN = "r.lease_token AS token", "i.token AS token"
"""Entries are signed with the token that the fence returns: without one of the run's own, with the writer's."""
_ours, _fence = leases.ours, commits.fence


def _anybodys(d: Dialect, ids: str = "") -> str:
    return _ours(d, ids).replace(FENCED, "1 = 1")


def _signed_by_the_writer(d: Dialect, ids: str = "") -> str:
    return _fence(d, ids).replace(CURRENT, GIVEN)


def drop_the_fence() -> None:
    """For the rest of this process."""
    for d in DIALECTS.values():
        assert (_ours(d).count(FENCED), _fence(d).count(CURRENT)) == (1, 1), "the fence is not where it was"
    leases.ours = commits.ours = _anybodys
    commits.fence = _signed_by_the_writer
    committing._at_once.cache_clear()


@contextmanager
def without_fence() -> Iterator[None]:
    drop_the_fence()
    try:
        yield
    finally:
        leases.ours = commits.ours = _ours
        commits.fence = _fence
        committing._at_once.cache_clear()

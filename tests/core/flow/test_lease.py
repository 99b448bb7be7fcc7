"""The right to work on a run, as its holder sees it: it ends by the local clock, before anybody else may start."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_durable.core import clock
from django_durable.core.flow.lease import Lease
from tests.core.driving import RUN_ID, TOKEN


@pytest.fixture(autouse=True)
def local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)


@pytest.mark.parametrize(("ends", "is_over"), [(100.5, False), (100.0, True), (99.0, True)])
def test_it_ends(ends: float, is_over: bool) -> None:
    assert Lease(RUN_ID, TOKEN, ends).is_over is is_over


@pytest.mark.parametrize(("ends", "does"), [(105.5, False), (105.0, True), (99.0, True)])
def test_it_ends_within_some_seconds(ends: float, does: bool) -> None:
    assert Lease(RUN_ID, TOKEN, ends).ends_within(5.0) is does


def test_it_is_renewed() -> None:
    lease = Lease(RUN_ID, TOKEN, 99.0)
    lease.renew(130.0)
    assert not lease.is_over


@pytest.mark.parametrize(("first", "second"), [(130.0, 131.0), (131.0, 130.0)])
def test_of_two_renewals_under_way_the_earlier_end_counts(first: float, second: float) -> None:
    """Which of both the database has done last nobody knows."""
    lease = Lease(RUN_ID, TOKEN, 110.0)
    lease.renew(first, 110.0)
    assert lease.ends == first
    lease.renew(second, 110.0)
    assert lease.ends == 130.0
    lease.renew(150.0, 130.0)
    assert lease.ends == 150.0


def test_lost_is_lost() -> None:
    lease = Lease(RUN_ID, TOKEN, 130.0)
    lease.lose()
    assert lease.is_over
    lease.renew(200.0)
    assert lease.is_over
    assert lease.ends_within(5.0)


def test_it_ends_with_the_clock_that_tests_move() -> None:
    lease = Lease(RUN_ID, TOKEN, 130.0)
    clock.set_offset(timedelta(seconds=30))
    try:
        assert lease.is_over
    finally:
        clock.set_offset(timedelta(0))
    assert not lease.is_over


def test_leases_are_told_apart_by_identity() -> None:
    assert Lease(RUN_ID, TOKEN, 1.0) != Lease(RUN_ID, TOKEN, 1.0)

"""The clocks: the machine's, moved by tests, and what a process knows of the database's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from tests.core.driving import NOON

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _unmoved() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))


class Monotonic:
    now = 100.0


@pytest.fixture
def monotonic(monkeypatch: pytest.MonkeyPatch) -> Monotonic:
    fake = Monotonic()
    monkeypatch.setattr("time.monotonic", lambda: fake.now)
    return fake


def test_utcnow_is_aware_and_moves() -> None:
    before = datetime.now(UTC)
    assert before <= clock.utcnow() <= datetime.now(UTC)
    clock.set_offset(HOUR)
    assert clock.offset() == HOUR
    assert before + HOUR <= clock.utcnow() <= datetime.now(UTC) + HOUR


def test_monotonic_moves_along(monotonic: Monotonic) -> None:
    assert clock.monotonic() == 100.0
    clock.set_offset(HOUR)
    assert clock.monotonic() == 3700.0


def test_the_database_s_time_goes_on_by_the_local_monotonic_clock(monotonic: Monotonic) -> None:
    known = DatabaseClock()
    known.observe(NOON)
    assert known.now() == NOON
    monotonic.now += 5
    assert known.now() == NOON + timedelta(seconds=5)
    # Told anew: the database's word counts, also where it is behind what was reckoned.
    known.observe(NOON + timedelta(seconds=4))
    assert known.now() == NOON + timedelta(seconds=4)


def test_a_wrong_wall_clock_does_not_matter(monotonic: Monotonic) -> None:
    known = DatabaseClock()
    in_a_year = datetime.now(UTC) + timedelta(days=365)
    known.observe(in_a_year)
    assert known.now() == in_a_year


def test_tests_move_it_once(monotonic: Monotonic) -> None:
    """The database tells its time with the offset already: it must not be added twice."""
    known = DatabaseClock()
    known.observe(NOON)
    clock.set_offset(HOUR)
    assert known.now() == NOON + HOUR
    known.observe(NOON + HOUR)
    assert known.now() == NOON + HOUR
    clock.set_offset(timedelta(0))
    assert known.now() == NOON


def test_before_the_first_answer_it_is_the_machine_s() -> None:
    assert abs(DatabaseClock().now() - datetime.now(UTC)) < timedelta(seconds=5)

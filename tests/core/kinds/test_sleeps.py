"""Sleeps: the first deadline stands, none ends early, and what has passed holds nobody up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.kinds.sleeps import MAX_SECONDS, instant_of, seconds_of
from tests.core.driving import NOON, World

HOUR = timedelta(hours=1)


def nap(ctx: Context) -> str:
    ctx.sleep("nap", HOUR)
    return "awake"


@pytest.mark.behaviour("WAIT-01a")
def test_a_sleep_parks_the_run_until_its_deadline() -> None:
    world = World()
    assert world.attempt(nap) == Suspended("sleep:nap", wake_after=3600)
    assert world.entries["nap"].wake_at == NOON + HOUR
    world.now = NOON + HOUR
    assert world.attempt(nap) == Completed('"awake"')
    assert world.entries["nap"].status == "succeeded"


@pytest.mark.behaviour("WAIT-01b")
def test_it_never_ends_early() -> None:
    world = World()
    world.attempt(nap)
    world.now = NOON + HOUR - timedelta(microseconds=1)
    assert world.attempt(nap) == Suspended("sleep:nap", wake_at=NOON + HOUR)


@pytest.mark.behaviour("WAIT-01e")
def test_the_first_deadline_stands() -> None:
    """Also when the code has changed its mind meanwhile."""
    world = World()
    world.attempt(nap)
    world.now += timedelta(minutes=59)
    longer = world.attempt(lambda ctx: ctx.sleep("nap", timedelta(days=5)))
    assert longer == Suspended("sleep:nap", wake_at=NOON + HOUR)
    until = world.attempt(lambda ctx: ctx.sleep_until("nap", NOON))
    assert until == Suspended("sleep:nap", wake_at=NOON + HOUR)


def test_a_sleep_that_is_over_stays_over() -> None:
    def body(ctx: Context) -> None:
        ctx.sleep("nap", HOUR)
        ctx.step("after", int)

    world = World()
    world.run(body)
    # The clock of another machine lags: what was passed once is passed.
    world.now = NOON
    assert isinstance(world.attempt(body), Completed)
    assert world.performed == ["after"]


def test_the_end_of_a_sleep_rides_with_the_next_write() -> None:
    def body(ctx: Context) -> None:
        ctx.sleep("nap", HOUR)
        ctx.step("after", int)

    world = World()
    world.run(body)
    assert [list(write.entries) for write in world.commits] == [["nap"], ["nap", "after"], []]


@pytest.mark.behaviour("WAIT-01c")
@pytest.mark.parametrize("duration", [0, -1, timedelta(0), timedelta(days=-9), 0.0])
def test_nothing_to_sleep(duration: Any) -> None:
    world = World()
    assert isinstance(world.attempt(lambda ctx: ctx.sleep("nap", duration)), Completed)
    assert len(world.commits) == 1


@pytest.mark.behaviour("WAIT-01c")
@pytest.mark.parametrize(
    ("when", "is_past"),
    [
        (NOON, True),
        (NOON - timedelta(days=1), True),
        (NOON + timedelta(microseconds=1), False),
        (NOON.astimezone(timezone(timedelta(hours=9))), True),
        (datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=-1))), False),
    ],
)
def test_sleep_until(when: datetime, is_past: bool) -> None:
    world = World()
    outcome = world.attempt(lambda ctx: ctx.sleep_until("nap", when))
    assert isinstance(outcome, Completed if is_past else Suspended)
    if not is_past:
        assert outcome == Suspended("sleep:nap", wake_at=when)
        world.now = when.astimezone(NOON.tzinfo)
        assert isinstance(world.attempt(lambda ctx: ctx.sleep_until("nap", when)), Completed)


def test_sleeps_in_a_loop() -> None:
    """WAIT-01: after each sleep the turns before it are replayed, not repeated."""

    def body(ctx: Context) -> None:
        for turn in range(3):
            ctx.step("work", int, key=turn)
            ctx.sleep("nap", 60, key=turn)

    world = World()
    assert isinstance(world.run(body), Completed)
    assert world.performed == ["work[0]", "work[1]", "work[2]"]
    assert world.now == NOON + timedelta(minutes=3)


@pytest.mark.parametrize("when", [datetime(2024, 5, 1), "tomorrow", None, 5, NOON.date()])
def test_sleep_until_wants_an_aware_datetime(when: Any) -> None:
    world = World()
    world.attempt(lambda ctx: ctx.sleep_until("nap", when))
    assert isinstance(world.error, TypeError)
    assert "aware datetime" in str(world.error)
    assert world.entries == {}


@pytest.mark.parametrize("duration", ["5", None, True, float("nan"), NOON])
def test_a_duration_is_a_timedelta_or_seconds(duration: Any) -> None:
    with pytest.raises(TypeError, match="timeout takes a timedelta or seconds"):
        seconds_of(duration, "timeout")


@pytest.mark.parametrize("duration", [float("inf"), float("-inf"), MAX_SECONDS + 1, 10**40, timedelta.max])
def test_a_duration_is_one_that_a_date_can_hold(duration: Any) -> None:
    with pytest.raises(ValueError, match="beyond what a date can hold"):
        seconds_of(duration, "timeout")


def test_an_int_that_is_no_float_is_too_long() -> None:
    with pytest.raises(ValueError, match="beyond what a date can hold"):
        seconds_of(10**400, "timeout")


def test_seconds() -> None:
    assert seconds_of(timedelta(minutes=1, milliseconds=5), "x") == 60.005
    assert seconds_of(5, "x") == 5.0
    assert type(seconds_of(5, "x")) is float


@pytest.mark.parametrize(
    "when",
    [
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
        datetime(9999, 12, 31, tzinfo=UTC),
    ],
)
def test_an_instant_that_no_database_gives_back_is_refused(when: datetime) -> None:
    with pytest.raises(ValueError, match="end of the calendar"):
        instant_of(when, "sleep_until")


def test_an_instant_is_kept_in_utc() -> None:
    given = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert instant_of(given, "sleep_until").isoformat() == "2030-01-01T10:00:00+00:00"

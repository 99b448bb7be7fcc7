from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone
from django.utils.timezone import now as imported_now

from django_durable.core import clock as core_clock
from django_durable.models import Run
from django_durable.testing import TravelClock, run_until_idle, travel
from tests.testing import flows

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def is_close(a: datetime, b: datetime) -> bool:
    return abs(a - b) < 10 * SECOND


@pytest.mark.behaviour("DATA-03c")
def test_all_python_clocks_move_together_and_back() -> None:
    real = datetime.now(UTC)
    with travel() as clock:
        clock.advance(hours=2)
        for now in (clock.now(), timezone.now(), imported_now(), core_clock.utcnow()):
            assert is_close(now, real + 2 * HOUR)
    for now in (timezone.now(), imported_now(), core_clock.utcnow()):
        assert is_close(now, real)
    assert timezone.datetime is datetime


@pytest.mark.parametrize(
    ("arguments", "units"),
    [
        ((3600,), {}),
        ((HOUR,), {}),
        ((), {"hours": 1}),
        ((), {"minutes": 59, "seconds": 60}),
        ((HOUR / 2,), {"minutes": 30}),
    ],
)
def test_advance_takes_what_durations_are_written_as(arguments: Any, units: Any) -> None:
    with travel() as clock:
        before = clock.now()
        clock.advance(*arguments, **units)
        assert HOUR <= clock.now() - before < HOUR + SECOND


def test_naive_and_aware_as_the_settings_say() -> None:
    with travel() as clock:
        clock.advance(days=1)
        assert timezone.now().tzinfo is not None
        with override_settings(USE_TZ=False):
            assert timezone.now().tzinfo is None
            assert is_close(timezone.now(), datetime.now() + timedelta(days=1))


def test_datetimes_are_still_datetimes() -> None:
    with travel():
        assert type(timezone.now()) is datetime
        assert timezone.template_localtime(timezone.now()).tzinfo is not None


def test_move_to_an_instant() -> None:
    when = datetime(2040, 2, 29, 12, tzinfo=UTC)
    with travel() as clock:
        clock.move_to(when)
        assert when <= clock.now() < when + SECOND


def test_the_first_move_sets_the_scene_and_time_then_goes_only_ahead() -> None:
    with travel() as clock:
        clock.move_to(datetime(2020, 3, 28, 12, tzinfo=UTC))
        clock.move_to(datetime(2020, 3, 29, 12, tzinfo=UTC))
        with pytest.raises(ValueError, match="only ahead"):
            clock.move_to(datetime(2020, 3, 29, 11, tzinfo=UTC))
        with pytest.raises(ValueError, match="only ahead"):
            clock.advance(hours=-1)
        with travel() as inner, pytest.raises(ValueError, match="only ahead"):
            inner.move_to(datetime(2020, 3, 29, 11, tzinfo=UTC))


def test_a_naive_instant_is_refused() -> None:
    with travel() as clock, pytest.raises(TypeError, match="aware"):
        clock.move_to(datetime(2040, 1, 1))


def test_nested_blocks_restore() -> None:
    real = datetime.now(UTC)
    with travel() as outer:
        outer.advance(hours=1)
        with travel() as inner:
            inner.advance(hours=1)
            assert is_close(timezone.now(), real + 2 * HOUR)
            with pytest.raises(RuntimeError, match="innermost"):
                outer.advance(hours=1)
        assert is_close(timezone.now(), real + HOUR)
        outer.advance(hours=1)
        assert is_close(timezone.now(), real + 2 * HOUR)


def test_a_clock_cannot_be_moved_after_its_block() -> None:
    with travel() as clock:
        pass
    with pytest.raises(RuntimeError, match="innermost"):
        clock.advance(1)


def test_an_error_restores_as_well() -> None:
    real = datetime.now(UTC)
    with pytest.raises(KeyError), travel() as clock:
        clock.advance(days=1)
        raise KeyError
    assert is_close(timezone.now(), real)


@pytest.mark.behaviour("DATA-03c")
@pytest.mark.usefixtures("any_db")
def test_the_engines_sql_follows() -> None:
    run = flows.patient.enqueue(48)
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=47, minutes=59)
        assert run_until_idle() == 0
        clock.advance(minutes=1)
        assert run_until_idle() == 1
        before, after = (datetime.fromisoformat(text) for text in run.result())
        assert after - before >= 48 * HOUR - SECOND
        row = Run.objects.get(pk=run.id)
        assert row.finished_at is not None
        assert is_close(row.finished_at, timezone.now())


@pytest.mark.usefixtures("any_db")
def test_the_instant_that_is_moved_to_has_come_for_the_database_too() -> None:
    for microsecond in (0, 1, 499, 500, 999_999):
        when = timezone.now().replace(microsecond=microsecond) + timedelta(days=microsecond + 1)
        run = flows.three_steps.using(run_after=when).enqueue()
        with travel() as clock:
            clock.move_to(when)
            assert run_until_idle() == 1
        assert run.result() == "abc"


@pytest.mark.usefixtures("any_db")
def test_the_past_works() -> None:
    with travel() as clock:
        clock.move_to(datetime(2020, 3, 28, 12, tzinfo=UTC))
        run = flows.patient.enqueue(48)
        run_until_idle(skip_waits=True)
        assert run.result()[1].startswith("2020-03-30T12:00:0")
        assert run.refresh().run.created_at.year == 2020


@pytest.mark.usefixtures("any_db")
def test_a_step_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that is moved within a step does not cost the lease."""
    with travel() as clock:
        monkeypatch.setattr(flows, "calls", Slow(clock))
        run = flows.three_steps.enqueue()
        run_until_idle()
        assert run.result() == "abc"


class Slow(list[str]):
    def __init__(self, clock: TravelClock) -> None:
        self.clock = clock

    def append(self, name: str) -> None:
        self.clock.advance(days=1)

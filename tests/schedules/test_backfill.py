"""Runs for the instants of a window that is past."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_durable.client import schedules
from django_durable.client.schedules import backfill
from django_durable.exceptions import InvalidInput, InvalidSchedule, UnknownWorkflow
from django_durable.models import Audit, Fire, Run, Schedule
from django_durable.signals import schedule_fired
from django_durable.store import by_hand
from django_durable.workflows.definition import Workflow
from tests.schedules.making import (
    DAY,
    HOUR,
    at,
    fire_loop,
    fires,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
    runs,
    tick_until_done,
)
from tests.schedules.noon import NOON, just_before_noon
from tests.store.parallel import Threads, answer

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


@pytest.fixture(autouse=True)
def _just_after_noon() -> None:
    move_to(NOON + timedelta(minutes=1))


@pytest.fixture(autouse=True)
def workflow(monkeypatch: pytest.MonkeyPatch) -> Workflow[Any, Any]:
    """The one that the schedules name; found although it is in no registry."""
    made = make_workflow()
    monkeypatch.setattr(schedules, "find", {made.name: made}.get)
    return made


@pytest.fixture
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PORTION", 3)


def test_each_due_instant_of_the_window_starts_one_run(small_portions: None) -> None:
    row = make_schedule(input='{"day": "monday"}')
    done = backfill(row, NOON - 10 * HOUR, NOON - 2 * HOUR, reason="the disk was full", actor="ada")
    assert fires(row) == [(NOON - number * HOUR, "backfilled") for number in range(10, 1, -1)]
    assert done.is_complete
    assert done.run_ids == [schedules_run(row, NOON - number * HOUR) for number in range(10, 1, -1)]
    assert {run.status for run in runs()} == {"queued"} and len(runs()) == 9
    audits = Audit.objects.filter(verb="backfill", actor="ada", reason="the disk was full")
    assert set(audits.values_list("run_id", flat=True)) == set(done.run_ids)
    assert schedules.scheduled_for(done.run_ids[0]) == NOON - 10 * HOUR


def schedules_run(row: Schedule, instant: datetime) -> Any:
    return Fire.objects.get(schedule=row, scheduled_for=instant).run_id


def test_a_run_of_no_schedule_is_for_no_instant() -> None:
    row = make_schedule()
    run_id = schedules.fire_now(row)
    assert schedules.scheduled_for(run_id) == Fire.objects.get().scheduled_for
    Fire.objects.all().delete()
    assert schedules.scheduled_for(run_id) is None


def test_again_it_starts_nothing(small_portions: None) -> None:
    row = make_schedule()
    backfill(row, NOON - 10 * HOUR, NOON)
    assert backfill(row, NOON - 10 * HOUR, NOON) == ([], True)
    assert len(backfill(row, NOON - 12 * HOUR, NOON - 9 * HOUR).run_ids) == 2
    assert len(runs()) == 13


def test_only_what_has_started_no_run_is_filled() -> None:
    """Skipped and missed instants count as such: the first of many missed ones is not the only one to stay away."""
    just_before_noon()
    row, loop = make_schedule(), fire_loop()
    move_to(NOON + 5 * HOUR)
    tick_until_done(loop)  # the latest of those that were missed
    move_to(NOON + 6 * HOUR)
    tick_until_done(loop)
    assert outcomes(row) == ["skipped: missed", "fired", "skipped: overlap"]
    fired = schedules_run(row, NOON + 5 * HOUR)
    backfill(row, NOON, NOON + 6 * HOUR)
    assert outcomes(row) == [*["backfilled"] * 5, "fired", "backfilled"]
    assert schedules_run(row, NOON + 5 * HOUR) == fired
    assert len(runs()) == 7


def test_the_limit_takes_the_oldest_and_the_next_call_goes_on(small_portions: None) -> None:
    row, window = make_schedule(), (NOON - 9 * HOUR, NOON)
    first = backfill(row, *window, limit=4)
    assert (len(first.run_ids), first.is_complete) == (4, False)
    assert [instant for instant, _ in fires(row)] == [NOON - number * HOUR for number in range(9, 5, -1)]
    second = backfill(row, *window, limit=6)
    assert (len(second.run_ids), second.is_complete) == (6, True)
    assert backfill(row, *window, limit=1) == ([], True)


@pytest.mark.parametrize("limit", [3, 6])
def test_a_limit_at_the_end_of_a_portion(limit: int, small_portions: None) -> None:
    row = make_schedule()
    assert not backfill(row, NOON - 9 * HOUR, NOON, limit=limit).is_complete
    assert len(runs()) == limit
    assert backfill(row, NOON - 9 * HOUR, NOON - (10 - limit) * HOUR, limit=limit) == ([], True)


def test_the_future_is_not_filled() -> None:
    row = make_schedule()
    assert backfill(row, NOON + HOUR / 2, NOON + DAY) == ([], True)
    assert len(backfill(row, NOON, NOON + DAY).run_ids) == 1
    assert fires(row) == [(NOON, "backfilled")]


def test_an_instant_that_is_due_fires_once_whoever_comes_first() -> None:
    just_before_noon()
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    backfill(row, NOON, NOON)
    tick_until_done(loop)
    assert fires(row) == [(NOON, "backfilled")] and len(runs()) == 1
    assert fresh(row).next_fire_at == NOON + HOUR


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_previous"])
def test_the_plan_goes_on_beside_it(overlap: str) -> None:
    row, loop = make_schedule(overlap=overlap, jitter=600.0), fire_loop()
    backfill(row, NOON - 3 * HOUR, NOON)
    assert fresh(row).next_fire_at == NOON + HOUR
    move_to(NOON + HOUR)
    tick_until_done(loop)
    assert outcomes(row) == [*["backfilled"] * 4, "fired"]
    by_backfill = Run.objects.filter(pk__in=Fire.objects.filter(outcome="backfilled").values("run_id"))
    assert set(by_backfill.values_list("status", "cancel_requested_at", "wake_at")) == {("queued", None, None)}


def test_at_a_change_of_the_clocks() -> None:
    move_to(at("2040-11-01T00:00:00"))
    row = make_schedule("30 2 * * *", timezone="Europe/Berlin", enabled=False)
    backfill(row, at("2040-10-27T12:00:00"), at("2040-10-29T12:00:00"))
    assert [instant for instant, _ in fires(row)] == [at("2040-10-28T00:30:00"), at("2040-10-29T01:30:00")]


def test_receivers_hear_of_each_after_the_commit(
    workflow: Workflow[Any, Any], django_capture_on_commit_callbacks: Any
) -> None:
    row, told = make_schedule(), list[Any]()

    def hear(sender: Any, **kwargs: Any) -> None:
        told.append((kwargs["scheduled_for"], kwargs["run_id"]))

    schedule_fired.connect(hear, sender=workflow)
    with django_capture_on_commit_callbacks(execute=True):
        done = backfill(row, NOON - HOUR, NOON)
        assert told == []
    assert told == list(zip([NOON - HOUR, NOON], done.run_ids, strict=True))


@pytest.mark.parametrize(
    ("window", "limit", "reason"),
    [
        ((datetime(2040, 1, 1), NOON), 1, "aware"),
        ((NOON, datetime(2040, 6, 1)), 1, "aware"),
        ((NOON, NOON - HOUR), 1, "ends before it begins"),
        ((NOON - HOUR, NOON), 0, "limit must be at least 1, not 0"),
    ],
)
def test_a_window_that_makes_no_sense(window: tuple[datetime, datetime], limit: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        backfill(make_schedule(), *window, limit)


def test_what_cannot_begin_is_refused() -> None:
    window = (NOON - HOUR, NOON)
    with pytest.raises(InvalidInput):
        backfill(make_schedule(input='{"unknown": 1}'), *window)
    with pytest.raises(UnknownWorkflow):
        backfill(make_schedule(name="other", workflow="app.gone"), *window)
    with pytest.raises(InvalidSchedule):
        backfill(make_schedule("nonsense", name="third", next_fire_at=None), *window)
    assert runs() == [] and not Fire.objects.exists()


# --- at once ---------------------------------------------------------------------------------


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as started:
        yield started


@pytest.mark.django_db(transaction=True)
def test_two_at_once_start_each_run_once(threads: Threads, small_portions: None) -> None:
    row, barrier = make_schedule(), threading.Barrier(4)

    def fill() -> schedules.Backfilled:
        barrier.wait(60)
        return backfill(row, NOON - 20 * HOUR, NOON)

    done = [answer(started) for started in [threads.start(fill) for _ in range(4)]]
    assert all(one.is_complete for one in done)
    started = [run_id for one in done for run_id in one.run_ids]
    assert sorted(started) == sorted(run.pk for run in runs()) and len(started) == 21
    assert fires(row) == [(NOON - number * HOUR, "backfilled") for number in range(20, -1, -1)]

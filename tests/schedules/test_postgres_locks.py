"""Rows that somebody holds, and connections that break: the other schedules go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_durable.client import schedules
from django_durable.client.schedules import backfill, disable, enable, fire_now
from django_durable.exceptions import ScheduleLocked
from django_durable.models import Fire, Run, Schedule
from django_durable.store import locking
from tests.schedules.making import (
    HOUR,
    advance,
    code_of,
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

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

SECOND = timedelta(seconds=1)


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as started:
        yield started


def test_a_schedule_that_another_worker_holds_is_left_to_it(threads: Threads) -> None:
    just_before_noon()
    row, other = make_schedule(), make_schedule(name="other")
    loop = fire_loop()
    move_to(NOON)
    with transaction.atomic():
        Schedule.objects.select_for_update().get(pk=row.pk)
        answer(threads.start(loop.tick))
        assert outcomes(other) == ["fired"] and outcomes(row) == []
        assert answer(threads.start(loop.tick)) == 0 and loop.interval > 0.5
    advance(2 * SECOND)
    loop.tick()
    assert outcomes(row) == ["fired"]


def test_a_run_that_a_web_transaction_holds_does_not_stop_the_other_schedules(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 60.0)  # who waited as operators do would not come back
    just_before_noon()
    row = make_schedule(overlap="cancel_previous")
    loop = fire_loop()
    move_to(NOON)
    loop.tick()
    other = make_schedule(name="other", next_fire_at=NOON + HOUR + timedelta(seconds=1))
    move_to(NOON + HOUR + timedelta(seconds=2))
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=runs()[0].pk)
        answer(threads.start(loop.tick))
        assert outcomes(other) == ["fired"] and outcomes(row) == ["fired"]
        assert answer(threads.start(loop.tick)) == 0 and loop.interval > 0.5
    advance(2 * SECOND)
    loop.tick()
    assert outcomes(row) == ["fired", "fired"]
    assert [run.status for run in Run.objects.filter(pk__in=Fire.objects.filter(schedule=row).values("run_id"))] == [
        "cancelled",
        "queued",
    ]


def test_a_schedule_that_a_web_transaction_holds_does_not_stop_the_others_from_following_the_code(
    threads: Threads,
) -> None:
    before, after = ([f"{minute} * * * *" for minute in minutes] for minutes in ((1, 2), (3, 4)))
    code_of(make_workflow(*before)).tick()
    held, other = Schedule.objects.order_by("pk")
    stray = make_schedule(name="stray", enabled=False, next_fire_at=NOON)
    code = code_of(make_workflow(*after))
    with transaction.atomic():
        list(Schedule.objects.select_for_update().filter(pk__in=[held.pk, stray.pk]))
        answer(threads.start(code.tick))
        assert code.ids == [held.pk, other.pk]
        assert (fresh(held).expression, fresh(other).expression) == ("1 * * * *", "4 * * * *")
        assert fresh(stray).next_fire_at == NOON
    code.tick()
    assert (fresh(held).expression, fresh(stray).next_fire_at) == ("3 * * * *", None)


def test_an_open_backfill_does_not_hold_up_the_loops(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = make_workflow()
    monkeypatch.setattr(schedules, "find", {workflow.name: workflow}.get)
    just_before_noon()
    row, other = make_schedule(), make_schedule(name="other")
    loop = fire_loop()
    move_to(NOON)
    with transaction.atomic():
        backfill(row, NOON - HOUR, NOON)
        answer(threads.start(loop.tick))
        assert outcomes(other) == ["fired"]
    advance(timedelta(seconds=2))
    tick_until_done(loop)
    assert fires(row) == [(NOON - HOUR, "backfilled"), (NOON, "backfilled")]
    assert fresh(row).next_fire_at == NOON + HOUR


VERBS: dict[str, Callable[[Schedule], object]] = {
    "enable": enable,
    "disable": disable,
    "fire_now": fire_now,
    "backfill": lambda row: backfill(row, NOON - HOUR, NOON),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_operator_waits_only_so_long_for_a_schedule(
    verb: str, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = make_workflow()
    monkeypatch.setattr(schedules, "find", {workflow.name: workflow}.get)
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    move_to(NOON)
    row = make_schedule(enabled=verb != "enable")
    with transaction.atomic():
        Schedule.objects.select_for_update().get(pk=row.pk)
        with pytest.raises(ScheduleLocked, match="operator's") as told:
            answer(threads.start(VERBS[verb], row))
    assert told.value.schedules == [f"{row.workflow}: {row.name}"] and not Fire.objects.exists()
    VERBS[verb](row)


def test_a_lost_connection_is_opened_again() -> None:
    just_before_noon()
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    pid = connection.connection.info.backend_pid
    with connections["default"].copy().cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        cursor.db.close()
    with pytest.raises(OperationalError, match=r"terminat|closed"):
        loop.tick()
    loop.tick()
    assert outcomes(row) == ["fired"]

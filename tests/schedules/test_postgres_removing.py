"""A schedule is removed at the moment at which somebody else has to do with it: rows are locked, and looked at anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_durable.client import schedules
from django_durable.exceptions import ScheduleLocked
from django_durable.models import Audit, Fire, Run, Schedule
from django_durable.store import locking
from django_durable.store.database import Database, PrivateDatabase
from tests.schedules.making import (
    HOUR,
    NIGHTLY,
    advance,
    code_of,
    fire_loop,
    make_schedule,
    make_workflow,
    move_to,
    outcomes,
    runs,
    tick_until_done,
)
from tests.schedules.noon import NOON, just_before_noon
from tests.store.parallel import Threads, answer, session, wait_until_blocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.fixture(autouse=True)
def _just_before_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = make_workflow()
    monkeypatch.setattr(schedules, "find", {workflow.name: workflow}.get)
    just_before_noon()


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as started:
        yield started


@pytest.fixture
def blocked() -> Iterator[Callable[[], None]]:
    """Waits until somebody waits for what the test's own open transaction holds."""
    watching = PrivateDatabase()
    yield lambda: wait_until_blocked(watching, session(Database()))
    watching.close()


def removals() -> int:
    return Audit.objects.filter(verb="remove").count()


def test_a_fire_that_is_under_way_comes_first_and_its_run_stays(
    threads: Threads, blocked: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 60.0)
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    with transaction.atomic():
        assert loop.tick() == 1 and outcomes(row) == ["fired"]
        removed = threads.start(schedules.remove, row)
        blocked()
    answer(removed)
    assert not Schedule.objects.exists() and not Fire.objects.exists()
    assert [run.status for run in runs()] == ["queued"] and removals() == 1


def test_a_removal_that_is_under_way_lets_it_fire_no_more_and_holds_nobody_up(threads: Threads) -> None:
    row, other = make_schedule(), make_schedule(name="other")
    loop, code = fire_loop(), code_of(make_workflow("0 3 * * *"))
    move_to(NOON)
    with transaction.atomic():
        schedules.remove(row)
        answer(threads.start(loop.tick))
        answer(threads.start(code.tick))
        assert outcomes(other) == ["fired"]
    advance(timedelta(seconds=2))
    tick_until_done(loop)
    assert outcomes(other) == ["fired"] and len(runs()) == 1
    assert set(Schedule.objects.values_list("name", flat=True)) == {"other", NIGHTLY}


def test_a_removal_that_is_undone_costs_no_instant(threads: Threads) -> None:
    row, loop = make_schedule(), fire_loop()
    move_to(NOON)
    with transaction.atomic():
        schedules.remove(row)
        answer(threads.start(loop.tick))
        transaction.set_rollback(True)
    advance(timedelta(seconds=2))
    tick_until_done(loop)
    assert outcomes(row) == ["fired"] and removals() == 0


VERBS: dict[str, Callable[[Schedule], Any]] = {
    "remove": schedules.remove,
    "enable": schedules.enable,
    "disable": schedules.disable,
    "fire_now": schedules.fire_now,
    "backfill": lambda row: schedules.backfill(row, NOON - 3 * HOUR, NOON),
    "change": lambda row: schedules.change(row, {"jitter": 5.0}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_who_has_waited_for_a_removal_finds_nothing_to_do(
    verb: str, threads: Threads, blocked: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 60.0)
    row = make_schedule(enabled=verb != "enable")
    with transaction.atomic():
        schedules.remove(row)
        other = threads.start(VERBS[verb], row)
        blocked()
    with pytest.raises(Schedule.DoesNotExist):
        answer(other)
    assert removals() == Audit.objects.count() == 1 and not Run.objects.exists() and not Fire.objects.exists()


def test_it_waits_only_so_long(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    row = make_schedule()
    with transaction.atomic():
        Schedule.objects.select_for_update().get(pk=row.pk)
        with pytest.raises(ScheduleLocked, match="operator's") as told:
            answer(threads.start(schedules.remove, row))
    assert told.value.schedules == [f"{row.workflow}: {row.name}"]
    assert Schedule.objects.exists() and removals() == 0

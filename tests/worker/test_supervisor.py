"""What a supervisor makes of dead children: when they come back, and what becomes of their runs. None is started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from django.db.utils import OperationalError

from django_durable.models import Run
from django_durable.models import Worker as WorkerRow
from django_durable.store.database import PrivateDatabase
from django_durable.worker import supervisor as module
from django_durable.worker.child import EMPTY, GAVE_UP, STILL_BUSY
from django_durable.worker.supervisor import QUICK_DEATH_SECONDS, Child, Supervisor
from tests.store.rows import beating, fresh, running

pytestmark = pytest.mark.django_db(transaction=True)

KILLED = -9


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor(["never started"], 1)
    yield supervisor
    supervisor._db.close()


def dead(returncode: int = KILLED, *, age: float = 0.0, place: int | None = 0, is_draining: bool = False) -> Child:
    process = cast(Any, SimpleNamespace(pid=0, returncode=returncode))
    return Child(uuid4(), process, -1, -1, place, time.monotonic() - age, is_draining)


def pauses(supervisor: Supervisor, *children: Child) -> list[float]:
    return [supervisor._pause(child) for child in children]


def test_a_child_that_dies_at_its_start_comes_back_more_and_more_slowly(supervisor: Supervisor) -> None:
    assert pauses(supervisor, *(dead() for _ in range(7))) == [0, 1, 3, 7, 15, 30, 30]


def test_a_child_that_has_lived_comes_back_at_once(supervisor: Supervisor) -> None:
    lived = dead(age=QUICK_DEATH_SECONDS + 1)
    assert pauses(supervisor, dead(), dead(), lived, dead()) == [0, 1, 0, 0]


def test_every_place_has_its_own_count(supervisor: Supervisor) -> None:
    assert pauses(supervisor, dead(), dead(), dead(place=1), dead()) == [0, 1, 0, 3]


def test_a_child_that_was_replaced_on_purpose_comes_back_at_once(supervisor: Supervisor) -> None:
    assert pauses(supervisor, dead(), dead(), dead(STILL_BUSY, is_draining=True)) == [0, 1, 0]


@pytest.mark.parametrize(
    ("returncode", "is_suspect"), [(STILL_BUSY, False), (GAVE_UP, True), (KILLED, True), (1, True)]
)
def test_what_a_dead_child_held_goes_on(
    returncode: int, is_suspect: bool, supervisor: Supervisor, db: PrivateDatabase
) -> None:
    child = dead(returncode, is_draining=True)
    beating(child.id)
    held = held_by(db, child)
    others = running(db)
    supervisor._take_over(child)
    run = fresh(held)
    assert (run.status, run.suspect, run.crashes, run.lease_token) == ("queued", is_suspect, 0, None)
    assert supervisor._wants_isolated is is_suspect
    assert fresh(others.run_id).status == "running"
    assert WorkerRow.objects.get(pk=child.id).stopped_at is not None


def held_by(db: PrivateDatabase, child: Child) -> Any:
    held = running(db)
    Run.objects.filter(pk=held.run_id).update(leased_by=child.id)
    return held.run_id


def test_a_child_that_ended_well_holds_nothing_and_nobody_asks(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "recovery", None)
    supervisor._take_over(dead(EMPTY))


def test_a_database_that_is_away_leaves_it_to_the_reaper(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: Any, **options: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(module.recovery, "reap_worker", away)
    supervisor._take_over(dead())
    assert "could not take over" in caplog.text

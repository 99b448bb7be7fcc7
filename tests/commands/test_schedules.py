"""durable_schedules, durable_fire, durable_backfill."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_durable.core import clock
from django_durable.models import Audit, Fire, Run, Schedule
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from tests.commands.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.contract]

ME = f"shell:{pwd.getpwuid(os.getuid()).pw_name}"
NOON = datetime(2040, 5, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _just_before_noon() -> Iterator[None]:
    clock.set_offset(NOON - timedelta(minutes=1) - database_now(Database()))
    yield
    clock.set_offset(timedelta(0))


def hourly(name: str = "hourly", **more: Any) -> Schedule:
    given = {"expression": "0 * * * *", "input": '{"number": 4}', "next_fire_at": NOON, **more}
    return Schedule.objects.create(workflow="app.doubling", name=name, **given)


# --- durable_schedules -----------------------------------------------------------------------


def test_the_schedules_and_their_next_instants(call: Call) -> None:
    hourly()
    hourly("off", enabled=False, next_fire_at=None)
    hourly("wrong", expression="nonsense", next_fire_at=None, problem="cannot be understood")
    Schedule.objects.create(workflow="app.other", name="one", expression="@daily", timezone="Asia/Tokyo")
    given = call("durable_schedules", "--workflow", "app.doubling", "--next", 2, "--json").data
    assert [(row["name"], row["enabled"], row["next"]) for row in given] == [
        ("hourly", True, ["2040-05-01T12:00:00.000Z", "2040-05-01T13:00:00.000Z"]),
        ("off", False, []),
        ("wrong", True, []),
    ]
    assert given[2]["problem"] == "cannot be understood"
    lines = call("durable_schedules").out.splitlines()
    assert len(lines) == 5
    assert lines[-1].split()[:4] == ["app.other", "one", "@daily", "Asia/Tokyo"]
    assert "2040-05-01T15:00:00.000Z" in lines[-1]


def test_no_schedules(call: Call) -> None:
    assert call("durable_schedules").out == "There are no schedules.\n"
    assert call("durable_schedules", "--json").data == []


# --- durable_fire ----------------------------------------------------------------------------


def test_fire(call: Call) -> None:
    row = hourly()
    called = call("durable_fire", "app.doubling", "--reason", "the night was lost")
    run = Run.objects.get()
    assert called.out == f"{run.pk}\n"
    entry, fire = Audit.objects.get(run_id=run.pk), Fire.objects.get(schedule=row)
    assert (entry.verb, entry.actor, entry.reason) == ("fire", ME, "the night was lost")
    assert (fire.run_id, fire.outcome) == (run.pk, "manual")


def test_which_schedule_is_meant(call: Call) -> None:
    assert call("durable_fire", "app.doubling").failed == "app.doubling has no schedule."
    hourly(), hourly("second")
    assert call("durable_fire", "app.doubling").failed == (
        "app.doubling has several schedules: it has 'hourly', 'second'."
    )
    assert call("durable_fire", "app.doubling", "third").failed == (
        "app.doubling has no schedule called 'third': it has 'hourly', 'second'."
    )
    assert call("durable_fire", "app.doubling", "second").failed is None
    assert Fire.objects.get().schedule.name == "second"


def test_what_cannot_be_fired(call: Call) -> None:
    hourly(input='{"letter": 4}')
    Schedule.objects.create(workflow="app.gone", name="one", expression="@daily")
    assert "letter" in str(call("durable_fire", "app.doubling").failed)
    assert "app.gone" in str(call("durable_fire", "app.gone").failed)
    assert not Run.objects.exists()


# --- durable_backfill ------------------------------------------------------------------------


def test_backfill(call: Call) -> None:
    row = hourly()
    window = ("--since", "2040-05-01T08:00+02:00", "--until", "2040-05-01T09:30Z")
    called = call("durable_backfill", "app.doubling", "hourly", *window, "--limit", 3, "--reason", "the disk was full")
    fires = Fire.objects.filter(schedule=row, outcome="backfilled").order_by("scheduled_for")
    assert [fire.scheduled_for.hour for fire in fires] == [6, 7, 8]
    assert called.out.split() == [str(fire.run_id) for fire in fires]
    assert called.err == "3 runs started. There are more: the same command goes on.\n"
    entries = Audit.objects.exclude(run=None)
    assert set(entries.values_list("verb", "actor", "reason")) == {("backfill", ME, "the disk was full")}
    assert call("durable_backfill", "app.doubling", *window).err == "1 run started.\n"
    again = call("durable_backfill", "app.doubling", *window)
    assert (again.out, again.err) == ("", "0 runs started.\n")


@pytest.mark.parametrize(
    ("since", "until", "reason"),
    [
        ("yesterday", "2040-05-01T09:00Z", "'yesterday' is no time"),
        ("2040-05-01T08:00", "2040-05-01T09:00Z", "'2040-05-01T08:00' could be anywhere"),
        ("2040-05-01T09:00Z", "2040-05-01T08:00Z", "--until is earlier than --since."),
    ],
)
def test_a_window_that_makes_no_sense(call: Call, since: str, until: str, reason: str) -> None:
    hourly()
    called = call("durable_backfill", "app.doubling", "--since", since, "--until", until)
    assert reason in str(called.failed)
    assert not Run.objects.exists()

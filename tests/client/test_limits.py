"""What people see of a limit, and that whoever starts a run starts it under its limit."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_durable import get_run
from django_durable.client.schedules import fire_now
from django_durable.core.ids import uuid7
from django_durable.models import Run, Schedule, Worker
from django_durable.testing import run_until_idle, travel
from tests.app import limits
from tests.store.rows import beating, columns

pytestmark = pytest.mark.django_db(transaction=True)
KEY = "app.one_a_tenant:a"


def hold(run_id: Any) -> None:
    Run.objects.filter(pk=run_id).update(status="running", **columns("running"))


def serving() -> Worker:
    return beating(uuid7(), queues=["default"], workflows=["app.one_a_tenant", "app.two_a_minute"])


def test_a_run_tells_the_key_that_it_waits_for_and_how_many_hold_it() -> None:
    first, second, other = (limits.one_a_tenant.enqueue(tenant) for tenant in "aab")
    assert second.why().reason == "queued: no worker"
    serving()
    assert second.why().reason == "queued"
    hold(first.id)
    why = second.why()
    assert why.reason == "queued: limit"
    assert why.text.startswith(f"Its limit {KEY!r} is full: 1 of 1 are running")
    assert other.why().reason == "queued"
    assert first.why().reason != "queued: limit"


def test_a_run_tells_that_what_is_about_to_end_goes_first() -> None:
    last, new = limits.one_a_tenant.enqueue("a"), limits.one_a_tenant.using(priority=9).enqueue("a")
    serving()
    assert new.why().reason == "queued"
    Run.objects.filter(pk=last.id).update(phase="compensating")
    assert new.why().reason == "queued: limit"
    assert new.why().text.startswith(f"Its limit {KEY!r} is full: of 1, 0 are running and 1 are about to end")
    assert last.why().reason == "queued"


def test_every_way_to_start_a_run_starts_it_under_its_limit() -> None:
    one = limits.one_a_tenant.enqueue("a")
    again = one.rerun()
    many = limits.one_a_tenant.enqueue_many([{"tenant": "a"}])
    keys = Run.objects.values_list("limit_key", flat=True)
    assert list(keys) == [KEY] * 3
    assert len({one.id, again.id, many[0].id}) == 3


@pytest.mark.behaviour("RUN-12f")
def test_runs_of_schedules_and_children_are_under_their_limit_too() -> None:
    schedule = Schedule.objects.create(
        workflow="app.one_a_tenant", name="nightly", expression="@daily", input='{"tenant":"a"}'
    )
    run_id = fire_now(schedule)
    assert Run.objects.get(pk=run_id).limit_key == KEY
    parent = limits.nested.enqueue(1)
    run_until_idle()
    assert list(Run.objects.filter(parent_id=parent.id).values_list("limit_key", flat=True)) == ["app.nested"]
    assert get_run(run_id).status == parent.status == "succeeded"


@pytest.mark.behaviour("RUN-12g")
def test_a_run_tells_the_rate_that_it_waits_for_and_when_the_next_may_start() -> None:
    first, second, third = limits.two_a_minute.enqueue_many([{"tenant": "a"}] * 3)
    other = limits.two_a_minute.enqueue("b")
    with travel() as moved:
        run_until_idle()
        moved.advance(seconds=20)
        serving()
        why = third.why()
        assert why.reason == "queued: rate"
        opens_at = Run.objects.filter(started_at__isnull=False).earliest("started_at").started_at + timedelta(minutes=1)
        assert why.text.startswith("The rate 2/m of 'app.two_a_minute:a' is used up")
        assert f"may start at {opens_at:%Y-%m-%d %H:%M:%S}" in why.text
        assert first.status == second.status == other.status == "succeeded"
        Run.objects.filter(pk=first.id).update(status="queued", finished_at=None)
        assert get_run(first.id).why().reason == "queued", "it has begun: no rate holds it"


@pytest.mark.behaviour("RUN-12g")
def test_users_tests_jump_to_the_next_start_that_a_rate_allows() -> None:
    runs = limits.two_a_minute.enqueue_many([{"tenant": "a"}] * 5)
    assert run_until_idle() == 2
    with travel():
        assert run_until_idle(skip_waits=True) == 3
    begun = sorted(Run.objects.values_list("started_at", flat=True))
    assert begun[2] - begun[0] >= timedelta(minutes=1) and begun[4] - begun[2] >= timedelta(minutes=1)
    assert [run.result() for run in runs] == ["A"] * 5

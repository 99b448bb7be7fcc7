"""Runs that are started again, with the input and the options of another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

import django_durable
from django_durable import Context, durable_workflow, get_run
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.exceptions import (
    RunNotFound,
)
from django_durable.models import Audit, Payload, Run
from django_durable.signals import run_enqueued
from django_durable.store.database import Database
from django_durable.store.scheduling import database_now
from django_durable.testing import run_until_idle, travel
from tests.client.orders import calls, in_status, order

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.mark.parametrize("status", sorted(Status))
def test_rerun_is_a_new_run_with_the_same_input(status: Status) -> None:
    run = in_status(status)
    before = database_now(Database())
    again = run.rerun("once more", actor="ann")
    after = database_now(Database())
    assert again != run
    assert run.refresh().status == status
    assert (again.workflow, again.status, again.attempt) == ("verbs.order", Status.QUEUED, 1)
    assert (again.run.parent_id, again.run.root_id) == (None, again.id)
    told = Audit.objects.filter(verb="rerun", actor="ann").order_by("pk")
    assert list(told.values_list("run_id", "reason", "status_before")) == [
        (run.id, f"{again.id}: once more", status),
        (again.id, f"of {run.id}: once more", ""),
    ]
    assert [before <= audit.at <= after for audit in told] == [True, True]


def test_rerun_repeats_what_was_done() -> None:
    run = order.enqueue("well")
    run_until_idle()
    again = run.rerun()
    run_until_idle()
    assert again.refresh().status == Status.SUCCEEDED
    assert calls == ["reserve", "reserve"]


def test_rerun_keeps_the_options() -> None:
    options: dict[str, Any] = {"queue": "vip", "priority": 7, "max_attempts": 4, "tags": ["a", "b"]}
    run = order.using(**options, run_after=3600).enqueue("well")
    with travel() as clock:
        clock.advance(hours=2)
        again = run.rerun().run
    assert (again.queue, again.priority, again.max_attempts) == ("vip", 7, 4)
    assert set(again.tags.values_list("name", flat=True)) == {"a", "b"}
    assert again.status == Status.QUEUED


def time_left(run: RunHandle[Any]) -> timedelta | None:
    row = run.refresh().run
    return None if row.deadline_at is None else row.deadline_at - row.created_at


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("run_after", [None, 3600])
def test_rerun_has_the_same_time_as_an_enqueue_from_its_own_start_on(run_after: int | None, turns: int) -> None:
    """How long the first one was to wait is no part of that, whether it still waits or has begun."""
    run = order.using(timeout=600, run_after=run_after).enqueue("well")
    with travel() as clock:
        for _ in range(2):
            again = run
            for _ in range(turns):
                again = again.rerun()
            assert time_left(again) == pytest.approx(timedelta(minutes=10), abs=timedelta(seconds=5))
            clock.advance(hours=2)
            run_until_idle()


def test_rerun_has_the_time_that_was_asked_for_and_not_what_was_left_of_another_s() -> None:
    @durable_workflow(name="verbs.hurried_parent")
    def hurried(ctx: Context) -> None:
        ctx.start_workflow("unlimited", order)
        ctx.start_workflow("limited", order.using(timeout=7200))

    hurried.using(timeout=60).enqueue()
    run_until_idle()
    with travel() as clock:
        unlimited, limited = (get_run(child.pk) for child in Run.objects.filter(workflow=order.name).order_by("pk"))
        clock.advance(minutes=2)
        run_until_idle()
        assert limited.refresh().status == Status.FAILED
        limited.resume()
        assert limited.run.deadline_at is None
        assert time_left(unlimited.rerun()) is None
        assert time_left(limited.rerun()) == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=5))


def test_rerun_is_announced_like_every_enqueue() -> None:
    run = in_status(Status.SUCCEEDED)
    heard: list[Any] = []

    def hear(sender: Any, run_id: Any, **more: Any) -> None:
        heard.append((sender, run_id, sorted(more)))

    run_enqueued.connect(hear)
    try:
        with transaction.atomic():
            again = run.rerun()
            assert heard == []
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            run.rerun()
            _ = 1 / 0
    finally:
        run_enqueued.disconnect(hear)
    assert heard == [(order, again.id, ["signal"])]


def test_rerun_of_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).rerun()


def test_each_run_is_started_again_once_however_it_is_called() -> None:
    runs = [order.enqueue("well") for _ in range(2)]
    called = [runs[0], runs[0].id, str(runs[0].id), runs[0].run, runs[1]]
    again = django_durable.rerun_runs(called)
    told = Audit.objects.exclude(status_before="").order_by("pk")
    assert list(told.values_list("run_id", flat=True)) == [run.id for run in runs] and len(again) == 2
    assert (django_durable.pause_runs(again), django_durable.cancel_runs([str(run.id) for run in again])) == (2, 2)
    assert len(django_durable.rerun_runs(Run.objects.filter(pk__in=[run.id for run in again]).order_by("-pk"))) == 2
    with pytest.raises(ValueError, match="hexadecimal"):
        django_durable.cancel_runs(["42"])


def careful_key(tenant: str) -> str:
    if tenant == "gone":
        raise LookupError(tenant)
    return tenant


@durable_workflow(name="rerunning.limited", max_concurrency=1, concurrency_key=careful_key)
def limited(ctx: Context, tenant: str) -> None:
    pass


@pytest.mark.parametrize("before", [None, "rerunning.limited:other"])
def test_rerun_is_limited_as_the_code_says_now(before: str | None) -> None:
    run = limited.enqueue("acme")
    Run.objects.update(limit_key=before)
    assert run.rerun().run.limit_key == "rerunning.limited:acme"


def test_rerun_keeps_its_limit_where_the_code_cannot_tell(caplog: pytest.LogCaptureFixture) -> None:
    run = limited.enqueue("acme")
    Run.objects.update(workflow="rerunning.forgotten")
    assert run.rerun().run.limit_key == "rerunning.limited:acme"
    Run.objects.update(workflow=limited.name)
    Payload.objects.update(data='{"tenant":"gone"}')
    assert run.rerun().run.limit_key == "rerunning.limited:acme"
    assert "LookupError" in caplog.text and str(run.id) in caplog.text
    # Its message, like its traceback, has words of the input.
    assert "gone" not in caplog.text

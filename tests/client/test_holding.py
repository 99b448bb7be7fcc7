"""Holding queues and workflows: what an operator says, and what becomes of runs meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

import django_durable
from django_durable import Context, durable_workflow
from django_durable.core import clock
from django_durable.core.journal.states import Status
from django_durable.exceptions import InvalidName, UnknownWorkflow
from django_durable.models import Audit, Hold, Run
from django_durable.store import workers
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling
from tests.store.rows import claimant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@durable_workflow(name="held.child", aliases=["held.kid"])
def child(ctx: Context, number: int) -> int:
    return number + 1


@durable_workflow(name="held.parent")
def parent(ctx: Context, number: int) -> int:
    return 10 * ctx.run_workflow("child", child.using(queue="children"), number)


@durable_workflow(name="held.listener", max_concurrency=1)
def listener(ctx: Context) -> Any:
    return ctx.wait_for_event("go").payload


@pytest.mark.parametrize("name", ["held.child", "held.kid", child], ids=["name", "alias", "itself"])
def test_a_held_workflow_waits_whatever_name_its_run_has(name: Any) -> None:
    new, old = child.enqueue(1), child.enqueue(2)
    Run.objects.filter(pk=old.id).update(workflow="held.kid")
    assert django_durable.hold_workflow(name, reason="a bad deploy", actor="ann")
    assert not django_durable.hold_workflow(child)
    assert Hold.objects.get().name == "held.child"
    assert run_until_idle() == 0
    assert {new.refresh().status, old.refresh().status} == {Status.QUEUED}
    for run in (new, old):
        why = run.why()
        assert why.reason == "queued: held"
        assert "workflow 'held.child' is held since" in why.text and "by ann: a bad deploy." in why.text
    assert django_durable.release_workflow(name)
    assert not django_durable.release_workflow(name)
    run_until_idle()
    assert [new.result(), old.result()] == [2, 3]


def test_a_held_queue_waits_and_others_do_not() -> None:
    held, free = doubling.using(queue="vip").enqueue(1), doubling.enqueue(2)
    assert django_durable.hold_queue("vip")
    run_until_idle()
    assert (held.refresh().status, free.refresh().status) == (Status.QUEUED, Status.SUCCEEDED)
    assert held.why().text.startswith("Its queue 'vip' is held since")
    assert django_durable.release_queue("vip", reason="mended", actor="bob")
    run_until_idle()
    assert held.result() == 2
    assert [(one.queue, one.verb, one.actor, one.reason) for one in Audit.objects.order_by("pk")] == [
        ("vip", "hold", "", ""),
        ("vip", "release", "bob", "mended"),
    ]


def test_a_parent_waits_for_a_child_that_is_held() -> None:
    run = parent.enqueue(1)
    django_durable.hold_queue("children")
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    assert Run.objects.get(parent_id=run.id).status == Status.QUEUED
    django_durable.release_queue("children")
    run_until_idle()
    assert run.result() == 20


def test_what_happens_to_a_run_meanwhile_is_seen_after_the_release() -> None:
    first, second = listener.enqueue(), listener.enqueue()
    run_until_idle()
    django_durable.hold_workflow(listener)
    first.send_event("go", 1)
    third = listener.enqueue()
    second.cancel("not needed")
    assert run_until_idle() == 0
    assert first.refresh().status == Status.QUEUED
    django_durable.release_workflow(listener)
    run_until_idle()
    assert first.result() == 1
    assert (second.refresh().status, third.refresh().status) == (Status.CANCELLED, Status.WAITING)


def test_names_that_nobody_knows_are_refused() -> None:
    with pytest.raises(UnknownWorkflow):
        django_durable.hold_workflow("held.chlid")
    with pytest.raises(InvalidName):
        django_durable.hold_queue("")
    assert not Hold.objects.exists()
    db, who = Database(), claimant("elsewhere.known", worker=uuid4())
    workers.register(db, who, concurrency=1, is_isolated=False, version="")
    assert django_durable.hold_workflow("elsewhere.known")


def test_who_knows_it_is_asked_by_the_clock_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of this machine may be an hour off, and all workers seem silent by it."""
    db, who = Database(), claimant("elsewhere.known", worker=uuid4())
    workers.register(db, who, concurrency=1, is_isolated=False, version="")
    now = clock.utcnow()
    monkeypatch.setattr(clock, "utcnow", lambda: now + timedelta(hours=1))
    assert django_durable.hold_workflow("elsewhere.known")

"""Atomic steps: the body's rows and the journal row commit together, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import JournalEntry, Run
from django_durable.store.claiming import Claimant, claim_next
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from tests.app.models import Counter
from tests.direct_commit import DirectCommit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
during: dict[str, Callable[[], Any]] = {}


def count(name: str) -> int:
    counter, _ = Counter.objects.get_or_create(name=name, defaults={"value": 0})
    counter.value += 1
    counter.save()
    during.get(name, lambda: None)()
    return counter.value


ONCE = Retry(max_attempts=2, initial=0, maximum=0)


@durable_workflow(name="atomic.counting", step_retry=ONCE)
def counting(ctx: Context, name: str) -> int:
    ctx.step("noted", lambda: "kept", ephemeral=True)
    return ctx.step("count", count, name, atomic=True)


@durable_workflow(name="atomic.counting_async", step_retry=ONCE)
async def counting_async(ctx: AsyncContext, name: str) -> int:
    return await ctx.step("count", count, name, atomic=True)


@pytest.fixture(autouse=True)
def _nothing_happens_during() -> None:
    during.clear()


@pytest.mark.parametrize("workflow", [counting, counting_async])
def test_the_body_and_its_journal_row_are_one_commit(workflow: Any) -> None:
    run = workflow.enqueue("a")
    run_until_idle()
    assert run.result() == 1
    assert Counter.objects.get(name="a").value == 1
    assert "count" in [step.path for step in run.steps()]


def test_a_body_that_raises_leaves_nothing_and_is_tried_again() -> None:
    failures = iter([ValueError("first")])

    def fail_once() -> None:
        for error in failures:
            raise error

    during["a"] = fail_once
    run = counting.enqueue("a")
    run_until_idle()
    assert run.result() == 1
    assert [(step.path, step.attempts) for step in run.steps()] == [("noted", 1), ("count", 2)]


def test_a_result_that_cannot_be_stored_rolls_the_body_back() -> None:
    @durable_workflow(name="atomic.unstorable")
    def unstorable(ctx: Context) -> object:
        return ctx.step("count", lambda: (count("a"), object())[1], atomic=True)

    run = unstorable.enqueue()
    run_until_idle()
    assert run.status == "failed"
    assert not Counter.objects.exists()


def test_an_on_commit_hook_that_raises_does_not_undo_what_was_committed() -> None:
    def hook() -> None:
        raise RuntimeError("too late")

    during["a"] = lambda: transaction.on_commit(hook)
    run = counting.enqueue("a")
    run_until_idle()
    assert run.result() == 1
    assert Counter.objects.get(name="a").value == 1


@pytest.mark.parametrize("workflow", [counting, counting_async])
def test_an_on_commit_hook_may_enqueue_as_part_of_the_step(workflow: Any) -> None:
    failures = iter([ValueError("first")])

    def hook() -> None:
        counting.enqueue("b")

    def enqueue_later() -> None:
        transaction.on_commit(hook)
        for error in failures:
            raise error

    during["a"] = enqueue_later
    workflow.enqueue("a")
    run_until_idle()
    assert Counter.objects.get(name="b").value == 1
    assert Run.objects.filter(status="succeeded").count() == 2


@pytest.mark.parametrize("workflow", [counting, counting_async])
def test_a_body_that_leaves_a_transaction_open_fails_and_leaves_nothing(workflow: Any) -> None:
    during["a"] = lambda: transaction.atomic().__enter__()
    run = workflow.enqueue("a")
    run_until_idle()
    assert run.status == "failed"
    assert "left a transaction open" in run.error["cause"]["message"]
    assert not Counter.objects.exists()
    assert not connection.in_atomic_block


def test_a_body_that_leaves_a_transaction_open_and_raises_leaves_nothing() -> None:
    def open_and_raise() -> None:
        transaction.atomic().__enter__()
        raise ValueError("mine")

    during["a"] = open_and_raise
    run = counting.enqueue("a")
    run_until_idle()
    assert run.error["cause"]["message"] == "mine"  # type: ignore[index]
    assert not Counter.objects.exists()
    assert not connection.in_atomic_block


def test_a_database_that_is_away_after_the_commit_is_asked_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    exists = QuerySet.exists

    def refuse_twice(self: Any) -> bool:
        asked.append(self)
        if len(asked) < 3:
            raise OperationalError("away")
        return exists(self)

    def hook() -> None:
        monkeypatch.setattr(QuerySet, "exists", refuse_twice)
        raise OperationalError("the connection was lost after the commit")

    during["a"] = lambda: transaction.on_commit(hook)
    run = counting.enqueue("a")
    run_until_idle()
    monkeypatch.undo()
    assert len(asked) == 3
    assert run.result() == 1
    assert Counter.objects.get(name="a").value == 1


def test_who_lost_the_lease_meanwhile_commits_nothing() -> None:
    def lose() -> None:
        Run.objects.filter(pk=current_step().run_id).update(lease_token=uuid7())

    during["a"] = lose
    counting.enqueue("a")
    db = Database()
    who = Claimant(uuid7(), ("default",), ("atomic.counting",))
    (claim,) = claim_next(db, who, 1, lease=30, time=DatabaseClock())
    outcome = run_attempt(claim, counting, DirectCommit(db))
    assert type(outcome).__name__ == "Lost"
    assert not Counter.objects.exists()
    assert not JournalEntry.objects.exists()


def test_a_coroutine_function_is_refused() -> None:
    async def body() -> int:
        return 1

    @durable_workflow(name="atomic.coroutine", step_retry=Retry(max_attempts=1))
    def refused(ctx: Context) -> object:
        return ctx.step("count", body, atomic=True)

    run = refused.enqueue()
    run_until_idle()
    assert "plain function" in run.error["message"]  # type: ignore[index]

"""Atomic steps: the body's rows and the journal row commit together, or neither."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.utils import OperationalError

from django_durable import AsyncContext, Context, Retry, current_step, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.executor import atomic
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import JournalEntry, Run
from django_durable.store.claiming import Claimant, claim_next, claim_suspect
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


def test_a_commit_that_fails_clears_no_suspect_and_what_is_journaled_then_does(monkeypatch: pytest.MonkeyPatch) -> None:
    write_batch, found = atomic.write_batch, []

    def refused_once(db: Any, writes: Any) -> Any:
        receipts = write_batch(db, writes)
        if len(found) == 1:
            # As where a constraint that is checked at the end is violated.
            raise OperationalError("refused")
        return receipts

    monkeypatch.setattr(atomic, "write_batch", refused_once)
    run = counting.enqueue("a")
    Run.objects.filter(pk=run.id).update(suspect=True, crashes=2, claims=1)
    during["a"] = lambda: found.append(Run.objects.values_list("suspect", "crashes").get(pk=run.id))
    db = Database()
    who = Claimant(uuid7(), ("default",), ("atomic.counting",))
    (claim,) = claim_suspect(db, who, lease=30, time=DatabaseClock())
    run_attempt(claim, counting, DirectCommit(db))
    # What was journaled between the two is that the step is to be tried again.
    assert found == [(True, 2), (False, 0)]


def test_a_coroutine_function_is_refused() -> None:
    async def body() -> int:
        return 1

    @durable_workflow(name="atomic.coroutine", step_retry=Retry(max_attempts=1))
    def refused(ctx: Context) -> object:
        return ctx.step("count", body, atomic=True)

    run = refused.enqueue()
    run_until_idle()
    assert "plain function" in run.error["message"]  # type: ignore[index]


# --- what the body says ----------------------------------------------------------------------


@durable_workflow(name="atomic.telling", step_retry=ONCE)
def telling(ctx: Context) -> None:
    def charge() -> None:
        ctx.log.info("charging")
        during["telling"]()

    ctx.log.info("begun")
    ctx.step("charge", charge, atomic=True)
    ctx.log.info("charged")
    ctx.step("after", during.get("after", int))


def said(run: Any) -> list[str]:
    return [line.message if line.attempt is None else f"attempt {line.attempt}" for line in run.log()]


@pytest.fixture
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="django_durable.workflow")


def raise_once(error: Exception) -> Callable[[], None]:
    errors = iter([error])

    def fn() -> None:
        for each in errors:
            raise each

    return fn


@pytest.mark.usefixtures("_at_info")
def test_what_a_body_says_is_stored_with_its_step() -> None:
    seen: list[list[str]] = []
    during["telling"] = lambda: None
    during["after"] = lambda: seen.append(said(run))
    run = telling.enqueue()
    run_until_idle()
    assert seen[0] == ["begun", "charging"]
    assert said(run) == ["begun", "charging", "charged"]


@pytest.mark.usefixtures("_at_info")
def test_what_a_body_that_raises_has_said_is_kept() -> None:
    during["telling"] = raise_once(ValueError("no"))
    run = telling.enqueue()
    run_until_idle()
    assert said(run) == ["begun", "charging", "attempt 1", "charging", "charged"]


@pytest.mark.usefixtures("_at_info")
def test_what_was_said_before_a_commit_that_was_refused_is_kept_and_not_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse = raise_once(OperationalError("refused"))
    during["telling"] = lambda: monkeypatch.setattr(atomic, "write_batch", refused)
    write_batch = atomic.write_batch
    logs: list[Any] = []

    def refused(db: Any, writes: Any) -> Any:
        logs.append(writes[0][1].log)
        logs[-1].is_in_doubt = len(logs) == 1
        refuse()
        return write_batch(db, writes)

    run = telling.enqueue()
    run_until_idle()
    assert said(run) == ["begun", "charging", "attempt 1", "charging", "charged"]
    assert [log.is_in_doubt for log in logs] == [False, False]

"""``RunHandle.log``: what a run has said, by way of the whole engine."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable import AsyncContext, Context, Retry, durable_workflow
from django_durable.client.exporting import export_runs
from django_durable.client.log import LoggedLine
from django_durable.models import LogLine
from django_durable.testing import crash_after, run_until_idle, travel

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True)]
ONCE = Retry(max_attempts=1)


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="django_durable.workflow")


@durable_workflow(name="log.order", retry=ONCE)
def order(ctx: Context) -> None:
    ctx.log.info("order %d", 42)
    ctx.step("reserve", int)
    ctx.log.info("reserved")
    ctx.step("pay", int, atomic=True)
    ctx.join("both", {"left": lambda ctx: ctx.log.warning("packed")})
    ctx.wait_for_event("sent")
    ctx.log.error("it is over")


@durable_workflow(name="log.order_async", retry=ONCE)
async def order_async(ctx: AsyncContext) -> None:
    async def left(ctx: AsyncContext) -> None:
        ctx.log.warning("packed")

    ctx.log.info("order %d", 42)
    await ctx.step("reserve", int)
    ctx.log.info("reserved")
    await ctx.step("pay", int, atomic=True)
    await ctx.join("both", {"left": left})
    await ctx.wait_for_event("sent")
    ctx.log.error("it is over")


@durable_workflow(name="log.retried", retry=Retry(max_attempts=3, initial=0, maximum=0))
def retried(ctx: Context) -> None:
    ctx.step("a", int)
    ctx.log.info("about to fail")
    raise ValueError


@durable_workflow(name="log.retried_async", retry=Retry(max_attempts=3, initial=0, maximum=0))
async def retried_async(ctx: AsyncContext) -> None:
    await ctx.step("a", int)
    ctx.log.info("about to fail")
    raise ValueError


@durable_workflow(name="log.napping", retry=Retry(max_attempts=3, initial=45, jitter=0))
def napping(ctx: Context) -> None:
    ctx.sleep("nap", timedelta(hours=1))
    raise ValueError("x" * 9_000)


@durable_workflow(name="log.chatty", retry=ONCE)
def chatty(ctx: Context) -> None:
    for number in range(5):
        ctx.log.info("%d", number)


BEFORE = ["order 42", "reserved", "packed"]
both = pytest.mark.parametrize("workflow", [order, order_async], ids=["def", "async def"])


def messages(run: Any) -> list[str]:
    return [line.message for line in run.log()]


def said(run: Any) -> list[str]:
    """By its code alone."""
    return [line.message for line in run.log() if line.attempt is None]


@pytest.mark.behaviour("DATA-01m")
@both
def test_what_a_run_says_is_read_from_outside(workflow: Any) -> None:
    run = workflow.enqueue()
    assert run.log() == []
    run_until_idle()
    assert messages(run) == BEFORE
    run.send_event("sent")
    run_until_idle()
    assert messages(run) == [*BEFORE, "it is over"]
    first, _, packed, last = run.log()
    assert isinstance(first, LoggedLine)
    assert (first.level, first.level_name, first.scope) == (logging.INFO, "INFO", "")
    assert (packed.level_name, packed.scope, last.level_name) == ("WARNING", "both/left", "ERROR")
    assert timedelta(0) <= timezone.now() - first.at < timedelta(minutes=1)
    assert first.at <= packed.at <= last.at


@both
@pytest.mark.parametrize("step", ["reserve", "pay"])
def test_a_process_that_dies_changes_nothing_of_it(workflow: Any, step: str) -> None:
    run = workflow.enqueue()
    with crash_after(step):
        run_until_idle()
    run.send_event("sent")
    run_until_idle()
    assert run.refresh().run.claims > 1
    assert messages(run) == [*BEFORE, "it is over"]


def test_an_attempt_that_fails_leaves_its_lines_once() -> None:
    run = retried.enqueue()
    run_until_idle()
    assert (str(run.refresh().status), run.attempt) == ("failed", 3)
    assert said(run) == ["about to fail"]
    run.resume()
    run_until_idle()
    assert said(run) == ["about to fail"]


@pytest.mark.parametrize("workflow", [retried, retried_async], ids=["def", "async def"])
def test_an_attempt_of_the_run_that_is_made_again_is_a_line_of_the_engine(workflow: Any) -> None:
    run = workflow.enqueue()
    run_until_idle()
    first, *others = run.log()
    assert first.message == "about to fail"
    # The last one is the run's own error.
    assert [(line.scope, line.attempt, line.level, line.message) for line in others] == [
        ("", attempt, logging.WARNING, f"attempt {attempt} failed, the next one comes at once: ValueError")
        for attempt in (1, 2)
    ]
    run.resume()
    run_until_idle()
    assert len(run.log()) == 3


def test_it_tells_how_long_the_run_was_worked_on_and_when_the_next_one_is_due() -> None:
    run = napping.enqueue()
    with travel() as clock:
        run_until_idle()
        clock.advance(hours=1.1)
        run_until_idle()
    line = LogLine.objects.get(run_id=run.id)
    # In the claim that met the error: the hour was nobody's work.
    assert line.seconds is not None and 0 <= line.seconds < 60
    assert line.at - run.run.created_at > timedelta(hours=1)
    beginning = "attempt 1 failed, the next one comes in 45 s: ValueError: xxx"
    assert line.message.startswith(beginning) and len(line.message) < 600
    assert run.refresh().status == "waiting"


def test_where_the_process_dies_before_it_is_stored_it_is_told_by_who_fails_next() -> None:
    run = retried.enqueue()
    with crash_after("a"):
        run_until_idle()
    assert [line.attempt for line in run.log() if line.attempt] == [1, 2]


def test_the_newest_are_read_the_oldest_of_them_first() -> None:
    run = chatty.enqueue()
    run_until_idle()
    assert [[line.message for line in run.log(limit)] for limit in (2, 5, 9, 0, -1)] == [
        ["3", "4"],
        [*"01234"],
        [*"01234"],
        [],
        [],
    ]


def test_a_fork_and_a_rerun_begin_without() -> None:
    run = order.enqueue()
    run_until_idle()
    fork, again = run.fork("pay"), run.rerun()
    assert (fork.log(), again.log()) == ([], [])
    run_until_idle()
    # It says itself what comes after the last entry that it was given.
    assert messages(fork) == BEFORE[1:]
    assert messages(again) == messages(run) == BEFORE


def test_an_export_has_them() -> None:
    run = order.enqueue()
    run_until_idle()
    [document] = export_runs([run.id])
    assert [line["message"] for line in document["log"]] == BEFORE
    first = run.log()[0]
    assert document["log"][0] == {
        "at": first.at.isoformat(),
        "level": 20,
        "scope": "",
        "message": "order 42",
        "attempt": None,
    }


@pytest.mark.parametrize("workflow", [chatty, retried])
def test_a_project_that_keeps_none(settings: Any, workflow: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 0}
    run = workflow.enqueue()
    with CaptureQueriesContext(connection) as queries:
        run_until_idle()
    assert (run.log(), LogLine.objects.count()) == ([], 0)
    # Not even to be removed at once.
    assert [query["sql"] for query in queries if "INTO django_durable_logline" in query["sql"]] == []

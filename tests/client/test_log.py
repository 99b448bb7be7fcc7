"""``RunHandle.log``: what a run has said, by way of the whole engine."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_durable import AsyncContext, Context, Retry, durable_workflow
from django_durable.client.exporting import export_runs
from django_durable.client.log import LoggedLine
from django_durable.models import LogLine
from django_durable.testing import crash_after, run_until_idle

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


@durable_workflow(name="log.chatty", retry=ONCE)
def chatty(ctx: Context) -> None:
    for number in range(5):
        ctx.log.info("%d", number)


BEFORE = ["order 42", "reserved", "packed"]
both = pytest.mark.parametrize("workflow", [order, order_async], ids=["def", "async def"])


def messages(run: Any) -> list[str]:
    return [line.message for line in run.log()]


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
    assert messages(run) == ["about to fail"]
    run.resume()
    run_until_idle()
    assert messages(run) == ["about to fail"]


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


def test_a_project_that_keeps_none(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 0}
    run = chatty.enqueue()
    run_until_idle()
    assert (run.log(), LogLine.objects.count()) == ([], 0)

"""A run whose journal has grown too long says so to whoever looks, and ends with an ordinary error at last."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import override_settings

from django_durable import Context, durable_workflow
from django_durable.core.journal.states import Status
from django_durable.exceptions import RunFailed
from django_durable.models import JournalEntry, Run
from django_durable.testing import run_until_idle

pytestmark = pytest.mark.django_db(transaction=True)
undone: list[int] = []


@durable_workflow(name="long_journals.many")
def many(ctx: Context, count: int) -> Any:
    for n in range(count):
        ctx.step("s", int, n, key=n, compensate=undone.append)
    return ctx.wait_for_event("go")


@override_settings(DURABLE={"JOURNAL_WARN_ENTRIES": 10})
@pytest.mark.parametrize(("count", "says"), [(9, False), (10, True)])
def test_why_tells_of_a_journal_past_the_soft_limit(count: int, says: bool) -> None:
    """The wait is an entry as well."""
    run = many.enqueue(count)
    assert "journal" not in run.why().text
    run_until_idle()
    why = run.why()
    assert why.reason == "waiting: event"
    assert why.text.endswith(" Its journal has more than 10 entries, all of which each claim reads.") is says


@override_settings(DURABLE={"JOURNAL_WARN_ENTRIES": 10})
@pytest.mark.parametrize(("count", "lines"), [(9, 0), (10, 1)])
def test_the_log_tells_of_it(caplog: pytest.LogCaptureFixture, count: int, lines: int) -> None:
    run = many.enqueue(count)
    run_until_idle()
    told = [one.getMessage() for one in caplog.records if one.name == "django_durable.workflow"]
    assert len([line for line in told if line.startswith(f"long journal run={run.id}")]) == lines


@override_settings(DURABLE={"JOURNAL_WARN_ENTRIES": 10})
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Status.BLOCKED, " Its journal has more than 10 entries, all of which each claim reads."),
        (Status.CANCELLED, " Its journal has more than 10 entries."),
    ],
)
def test_so_it_does_where_the_run_is_blocked_or_over(status: str, text: str) -> None:
    run = many.enqueue(10)
    run_until_idle()
    if status == Status.BLOCKED:
        Run.objects.filter(pk=run.id).update(status=status, block_reason="crashed", waiting_on="", wake_at=None)
    else:
        run.cancel()
        run_until_idle()
    assert run.refresh().status == status
    assert run.why().text.endswith(text)


@override_settings(DURABLE={"JOURNAL_WARN_ENTRIES": 2, "JOURNAL_MAX_ENTRIES": 4})
def test_past_the_hard_limit_the_run_fails_is_not_tried_again_and_is_undone() -> None:
    undone.clear()
    run = many.enqueue(9)
    run_until_idle(skip_waits=True)
    with pytest.raises(RunFailed, match="JournalFull"):
        run.result(timeout=0)
    assert run.refresh().status == Status.FAILED and run.attempt == 1
    assert undone == [3, 2, 1, 0]
    assert JournalEntry.objects.filter(run_id=run.id, kind="undo").count() == 4


# --- fan-outs --------------------------------------------------------------------------------


@durable_workflow(name="long_journals.part")
def part(ctx: Context, number: int) -> int:
    return number


@durable_workflow(name="long_journals.fan")
def fan(ctx: Context, count: int, max_parallel: int | None, goes_on: bool) -> Any:
    total = sum(ctx.map("m", part, range(count), max_parallel=max_parallel))
    return total + ctx.step("after", int) if goes_on else total


@override_settings(DURABLE={"JOURNAL_WARN_ENTRIES": 5, "JOURNAL_MAX_ENTRIES": 20})
@pytest.mark.parametrize("max_parallel", [None, 3])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_fan_out_past_both_limits_is_told_of_once_and_goes_on(
    caplog: pytest.LogCaptureFixture, max_parallel: int | None, goes_on: bool
) -> None:
    run = fan.enqueue(30, max_parallel, goes_on)
    run_until_idle()
    assert run.result(timeout=0) == sum(range(30))
    assert JournalEntry.objects.filter(run_id=run.id).count() == 31 + goes_on
    assert Run.objects.filter(parent_id=run.id, status=Status.SUCCEEDED).count() == 30
    told = [one.getMessage() for one in caplog.records if one.name == "django_durable.workflow"]
    assert [line.partition(" workflow=")[0] for line in told] == [f"long journal run={run.id}"]
    assert run.why().text.endswith(" Its journal has more than 5 entries.")

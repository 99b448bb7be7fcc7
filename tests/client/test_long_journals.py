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

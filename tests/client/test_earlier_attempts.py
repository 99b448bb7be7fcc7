"""What an attempt of a whole run failed with is told while the run may come to fail, and not of one that is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.client.exporting import export_runs
from django_durable.client.handle import RunHandle
from django_durable.client.recorded import read
from django_durable.core.journal.states import Status
from django_durable.testing import run_until_idle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
LATER = Retry(max_attempts=2, initial=3600, maximum=3600, jitter=0)


@durable_workflow(name="attempts.flaky", retry=LATER)
def flaky(ctx: Context, failures: int) -> str:
    if ctx.attempt <= failures:
        raise ValueError(f"attempt {ctx.attempt}")
    return "done"


def tried(failures: int) -> RunHandle[str]:
    """A run whose first attempt failed, and that waits for its second."""
    run = flaky.enqueue(failures)
    run_until_idle()
    assert (run.refresh().status, run.attempt) == (Status.WAITING, 2)
    return run


def gone_on(run: RunHandle[str]) -> None:
    run_until_idle(skip_waits=True)


def cancelled(run: RunHandle[str]) -> None:
    run.cancel()
    run_until_idle()


ENDS: dict[str, tuple[int, Callable[[RunHandle[str]], None], Status, str | None]] = {
    "succeeded": (1, gone_on, Status.SUCCEEDED, None),
    "failed": (2, gone_on, Status.FAILED, "attempt 2"),
    "cancelled": (1, cancelled, Status.CANCELLED, None),
}


def message(error: Any) -> str | None:
    return None if error is None else error["message"]


@pytest.mark.parametrize("how", ENDS)
def test_the_error_of_a_run(how: str) -> None:
    failures, end, status, told = ENDS[how]
    run = tried(failures)
    assert message(run.error) == "attempt 1"
    end(run)
    # Also through the handle that had the run waiting: it reads the error when it is asked.
    assert message(run.error) == told
    assert run.refresh().status == status
    assert message(get_run(run.id).error) == told


def test_while_it_is_paused_the_error_is_told() -> None:
    run = tried(1)
    run.pause()
    assert run.refresh().status == Status.PAUSED
    assert message(run.error) == "attempt 1"


@pytest.mark.parametrize("how", ENDS)
def test_the_errors_of_an_export(how: str) -> None:
    failures, end, _, told = ENDS[how]
    run = tried(failures)
    [document] = export_runs([run.id])
    assert "attempt 1" in document["payloads"]["retry"]
    assert "attempt 1" in str(read(document).error)
    end(run)
    [document] = export_runs([run.id])
    assert "retry" not in document["payloads"]
    assert ("error" in document["payloads"]) == (told is not None)


def test_an_older_export_s_error_of_an_earlier_attempt_is_not_the_run_s() -> None:
    run = tried(1)
    [before] = export_runs([run.id])
    gone_on(run)
    [document] = json.loads(json.dumps(list(export_runs([run.id]))))
    document["payloads"]["retry"] = before["payloads"]["retry"]
    assert read(document).error is None

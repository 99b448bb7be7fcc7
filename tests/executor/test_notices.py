"""What is heard of a step's attempts from outside, in both forms of workflow."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable import AsyncContext, Context, Retry, durable_workflow
from django_durable.exceptions import RunFailed
from django_durable.signals import step_failed, step_retrying
from django_durable.testing import run_until_idle

pytestmark = pytest.mark.django_db(transaction=True)
PATIENT = Retry(max_attempts=3, initial=10, factor=3, jitter=0)


def refuse() -> None:
    raise ValueError("not now")


@durable_workflow(name="notices.plain", step_retry=PATIENT)
def plain(ctx: Context) -> None:
    ctx.step("pay", refuse)


@durable_workflow(name="notices.coroutine")
async def coroutine(ctx: AsyncContext) -> None:
    await ctx.step("pay", refuse, retry=PATIENT)


@pytest.mark.behaviour("STEP-07e", "STEP-07f")
@pytest.mark.parametrize("workflow", [plain, coroutine], ids=["sync", "async"])
def test_each_retry_is_told_with_its_attempt_of_how_many_its_error_and_its_delay(workflow: Any) -> None:
    heard: list[tuple[Any, ...]] = []

    def listen(signal: Any, sender: Any, path: str, attempt: int, error: Any, delay: Any, **more: Any) -> None:
        heard.append((signal, sender, path, attempt, more["max_attempts"], error["message"], delay))

    for signal in (step_retrying, step_failed):
        signal.connect(listen, sender=workflow)
    try:
        run = workflow.enqueue()
        run_until_idle(skip_waits=True)
    finally:
        for signal in (step_retrying, step_failed):
            signal.disconnect(listen, sender=workflow)
    assert heard == [
        (step_retrying, workflow, "pay", 1, 3, "not now", 10),
        (step_retrying, workflow, "pay", 2, 3, "not now", 30),
        (step_failed, workflow, "pay", 3, 3, "not now", None),
    ]
    with pytest.raises(RunFailed):
        run.result(timeout=0)

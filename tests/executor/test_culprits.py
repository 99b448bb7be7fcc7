"""What an operator's resume tries again: the steps that ended the run, also those whose failure was wrapped."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from django_durable import Context, Retry, durable_workflow
from django_durable.exceptions import StepFailed
from django_durable.testing import run_until_idle

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
OPTIONS: dict[str, Any] = {"retry": Retry(max_attempts=1), "step_retry": Retry(max_attempts=1)}
calls: Counter[str] = Counter()


def fail_at_first(name: str) -> str:
    calls[name] += 1
    if calls[name] == 1:
        raise ValueError(name)
    return name


@durable_workflow(name="culprits.wrapped", **OPTIONS)
def wrapped(ctx: Context) -> str:
    try:
        return ctx.step("card", fail_at_first, "card")
    except StepFailed as error:
        raise RuntimeError("no money") from error


@durable_workflow(name="culprits.grouped", **OPTIONS)
def grouped(ctx: Context) -> list[str]:
    done, failed = [], []
    for name in ("card", "mail"):
        try:
            done.append(ctx.step(name, fail_at_first, name))
        except StepFailed as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup("several", failed)
    return done


@durable_workflow(name="culprits.handled", **OPTIONS)
def handled(ctx: Context) -> str:
    try:
        ctx.step("card A", fail_at_first, "card A")
    except StepFailed:
        ctx.step("card B", calls.update, ["card B"])
        return ctx.step("mail", fail_at_first, "mail")
    return "paid with A"


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


@pytest.mark.parametrize(
    ("workflow", "result", "expected"),
    [
        (wrapped, "card", {"card": 2}),
        (grouped, ["card", "mail"], {"card": 2, "mail": 2}),
        (handled, "mail", {"card A": 1, "card B": 1, "mail": 2}),
    ],
)
def test_resume_tries_again_what_ended_the_run_and_nothing_else(
    workflow: Any, result: object, expected: dict[str, int]
) -> None:
    run = workflow.enqueue()
    run_until_idle()
    assert run.status == "failed"
    run.resume()
    run_until_idle()
    assert run.result() == result
    assert calls == expected

"""Exceptions of any kind, raised anywhere: the run ends and says why, and its worker works on.

In this process at some places; `test_worker.py` goes through all of them, with some, and through two with all texts.
"""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.client.handle import RunHandle
from django_durable.core.payloads.codec import encode
from django_durable.core.payloads.failures import describe, short
from django_durable.testing import run_until_idle
from tests.hostile import rude
from tests.hostile.app.workflows import failing_to_fail, raising, raising_async
from tests.hostile.corpus import ERRORS, EVERYWHERE, FORGING
from tests.hostile.ends import (
    all_undefined,
    nothing_escapes,
    start_all,
    the_next_ones_are_well,
    too_large,
    undecodable,
)
from tests.invariants import violated

pytestmark = [pytest.mark.contract, pytest.mark.queueless]
in_database = pytest.mark.django_db
RAISED = {
    *rude.ERRORS,
    *("text: all", "text: a megabyte", "10 MB", "too long an int", "arguments that raise", "no arguments"),
}
OTHERS = RAISED - EVERYWHERE - FORGING
PLACES = ("step", "step with retries", "atomic step", "body", "branch", "turn", "compensation", "child")
PLACES_ASYNC = ("step of a coroutine", "race", "body")


@pytest.mark.parametrize("what", ERRORS)
def test_it_is_told_in_plain_data(what: str) -> None:
    with nothing_escapes():
        try:
            raise ERRORS[what]()
        except BaseException as error:
            told, brief = describe(error), short(error)
    assert encode(told)
    assert type(told["type"]) is type(told["message"]) is type(told["traceback"]) is str
    assert len(brief) < 1_000


@in_database
@pytest.mark.parametrize("where", PLACES)
def test_a_run_ends_whatever_is_raised(where: str) -> None:
    # The child of the one more is blocked for ever, for which the worker does not wait.
    raised = OTHERS | {"forged: undecodable"} if where == "child" else OTHERS
    runs = start_all(raising, {what: {"where": where, "what": what} for what in raised})
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


@in_database
@pytest.mark.parametrize("where", PLACES_ASYNC)
def test_an_async_run_ends_whatever_is_raised(where: str) -> None:
    runs = start_all(raising_async, {what: {"where": where, "what": what} for what in OTHERS})
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


@in_database
def test_what_is_to_be_done_after_a_failure_may_fail_as_well() -> None:
    runs = start_all(failing_to_fail, {what: {"what": what} for what in RAISED})
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


def check(runs: dict[Any, RunHandle[Any]]) -> None:
    assert all_undefined(runs) == {}
    assert undecodable() == []
    assert too_large(runs) == {}
    assert violated() == []
    assert the_next_ones_are_well()

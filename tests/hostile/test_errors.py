"""Exceptions of any kind, raised anywhere: the run ends and says why, and its worker works on.

In this process at some places; `test_worker.py` goes through all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.client.handle import RunHandle
from django_durable.core.payloads.codec import encode
from django_durable.core.payloads.failures import describe, short
from django_durable.models import Payload
from django_durable.testing import run_until_idle
from tests.hostile import rude
from tests.hostile.app.workflows import failing_to_fail, raising, raising_async
from tests.hostile.corpus import ERRORS
from tests.hostile.ends import all_undefined, nothing_escapes, the_next_ones_are_well, undecodable
from tests.invariants import violated

pytestmark = pytest.mark.contract
in_database = pytest.mark.django_db
RAISED = {*rude.ERRORS, "text: all", "text: a megabyte", "10 MB", "too long an int", "arguments that raise"}
PLACES = ("step", "step with retries", "atomic step", "body", "branch", "turn", "compensation", "child")
ERROR_MAX = 600_000
"""Bytes of what is stored of one: ten thousand characters of message, twelve related ones, ten notes of each."""


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
@pytest.mark.parametrize(
    "where", ["step", "step with retries", "atomic step", "body", "branch", "turn", "compensation", "child"]
)
def test_a_run_ends_whatever_is_raised(where: str) -> None:
    runs = {what: raising.enqueue(where, what) for what in RAISED}
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


@in_database
@pytest.mark.parametrize("where", ["step of a coroutine", "race", "body"])
def test_an_async_run_ends_whatever_is_raised(where: str) -> None:
    runs = {what: raising_async.enqueue(where, what) for what in RAISED}
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


@in_database
def test_what_is_to_be_done_after_a_failure_may_fail_as_well() -> None:
    runs = {what: failing_to_fail.enqueue(what) for what in RAISED}
    with nothing_escapes():
        run_until_idle(skip_waits=True)
    check(runs)


def check(runs: dict[Any, RunHandle[Any]]) -> None:
    assert all_undefined(runs) == {}
    assert undecodable() == []
    sizes = {what: size(run) for what, run in runs.items()}
    assert {what: size for what, size in sizes.items() if size > ERROR_MAX} == {}
    assert violated() == []
    assert the_next_ones_are_well()


def size(run: RunHandle[Any]) -> int:
    return sum(map(len, Payload.objects.filter(run_id=run.id).values_list("data", flat=True)))

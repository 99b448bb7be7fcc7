from __future__ import annotations

from typing import Any

import pytest

from django_durable import Context, durable_workflow
from django_durable.testing import assert_enqueued, assert_not_enqueued, assert_step_ran, run_until_idle
from tests.app import workflows as app
from tests.testing import flows

pytestmark = pytest.mark.django_db


@durable_workflow
def order(ctx: Context, number: int, express: bool = False, /, *notes: str, **facts: Any) -> None:
    pass


@durable_workflow
def plain(ctx: Context, number: int, express: bool = False) -> None:
    pass


@pytest.mark.behaviour("DATA-03d")
def test_a_run_with_this_input_is_found() -> None:
    plain.enqueue(1)
    run = plain.enqueue(2, express=True)
    assert assert_enqueued(plain, number=2) == run
    assert assert_enqueued("test_asserting.plain", number=2, express=True) == run
    assert assert_enqueued(plain) == run


def test_defaults_count_and_the_status_does_not() -> None:
    run = plain.enqueue(1)
    run_until_idle()
    assert assert_enqueued(plain, express=False) == run


def test_arguments_of_every_kind() -> None:
    order.enqueue(1, True, "a note", colour="red")
    assert_enqueued(order, number=1, notes=("a note",), colour="red")
    assert_not_enqueued(order, colour="blue")


def test_what_is_missing_is_told_with_what_is_there() -> None:
    plain.enqueue(1)
    with pytest.raises(AssertionError, match=r"test_asserting\.plain with number=2 .* number=1, express=False"):
        assert_enqueued(plain, number=2)
    with pytest.raises(AssertionError, match=r"No run of it was"):
        assert_enqueued(order)


def test_what_should_not_be_there() -> None:
    assert_not_enqueued(plain)
    run = plain.enqueue(1)
    assert_not_enqueued(plain, number=2)
    with pytest.raises(AssertionError, match=str(run.id)):
        assert_not_enqueued(plain, number=1)


@pytest.mark.parametrize("ask", [assert_enqueued, assert_not_enqueued])
def test_a_parameter_that_does_not_exist_is_an_error_of_the_test(ask: Any) -> None:
    with pytest.raises(TypeError, match="no parameter nubmer"):
        ask(plain, nubmer=1)


@pytest.mark.behaviour("DATA-03d")
def test_steps_that_ran() -> None:
    run, failing = app.many_steps.enqueue(3), app.failing.enqueue()
    run_until_idle()
    assert_step_ran(run, "double", times=3)
    assert_step_ran(run, "double", times=None)
    assert_step_ran(run.id, "double[2]")
    assert_step_ran(str(run.id), "triple", times=0)
    assert_step_ran(run.run, "double[0]")
    assert_step_ran(failing, "explode", times=2)


def test_steps_that_did_not() -> None:
    run = flows.three_steps.enqueue()
    with pytest.raises(AssertionError, match=r"'a' of flows\.three_steps ran 0 times, not 1\. .* queued"):
        assert_step_ran(run, "a")
    run_until_idle()
    with pytest.raises(AssertionError, match=r"ran 1 times, not 2\. .* 'a' \(succeeded, attempts: 1\)"):
        assert_step_ran(run, "a", times=2)
    with pytest.raises(AssertionError, match="at least once"):
        assert_step_ran(run, "d", times=None)

"""The checker sees what is wrong with how steps were executed: each check with what it finds and what it lets pass."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from tests.faults.kinds import Action
from tests.faults.making import BODY, Making, found, went_well

TWICE = "'two' was executed 2 times; the fault has not hit it"
THRICE = "'two' was executed 3 times; the fault has hit it"
LATE = "'two' began although its journal entry was committed"


def begun(action: Action | None = None, label: str = "some statement", *, name: str = "plain") -> Making:
    """A run whose first step is done."""
    making = Making(name, action, label)
    making.start()
    making.execute("one")
    return making


def ended(making: Making) -> Making:
    """With its last step."""
    making.execute("three")
    making.end()
    return making


# --- executed_as_often_as_explained ----------------------------------------------------------


def test_a_step_that_is_executed_twice_without_a_fault() -> None:
    making = begun()
    making.begin("two")
    making.claim()
    making.execute("two")
    assert found(ended(making)) == [TWICE]


def test_a_step_that_the_fault_has_hit_is_executed_once_more() -> None:
    making = begun(Action.DIE)
    making.begin("two")
    making.fault()
    making.claim()
    making.execute("two")
    assert found(ended(making)) == []


def test_a_step_that_the_fault_has_hit_is_executed_three_times() -> None:
    making = begun(Action.DIE)
    making.begin("two")
    making.fault()
    making.begin("two", attempt=2)
    making.claim()
    making.execute("two")
    assert found(ended(making)) == [THRICE]


def test_another_step_than_the_fault_has_hit_is_executed_twice() -> None:
    making = begun(Action.DIE)
    making.fault()
    making.begin("two")
    making.claim()
    making.execute("two")
    assert found(ended(making)) == [TWICE]


def test_a_step_is_executed_again_after_a_fault_that_came_when_it_was_journaled() -> None:
    making = begun(Action.DIE)
    making.execute("two")
    making.fault()
    making.claim()
    making.begin("two")
    assert found(ended(making)) == [LATE, TWICE]


@pytest.mark.parametrize("action", [Action.STALL, Action.TERMINATE])
def test_a_body_that_the_fault_came_right_before_is_executed_once_more(action: Action) -> None:
    making = begun(action, BODY)
    making.fault()
    making.begin("two")
    making.claim()
    making.execute("two")
    assert found(ended(making)) == []


@pytest.mark.parametrize(("action", "label"), [(Action.DIE, BODY), (Action.STALL, "some statement")])
def test_a_body_is_executed_once_where_no_fault_could_have_come_right_before_it(action: Action, label: str) -> None:
    making = begun(action, label)
    making.fault()
    making.begin("two")
    making.claim()
    making.execute("two")
    assert found(ended(making)) == [TWICE]


def test_an_attempt_is_executed_once_under_a_claim() -> None:
    making = begun(Action.AFTER)
    making.begin("two")
    making.fault()
    making.execute("two")
    assert found(ended(making)) == [
        f"attempt 1 of 'two' was executed 2 times under the claim {making.token.hex}",
    ]


def test_the_next_attempt_is_executed_under_the_same_claim() -> None:
    making = begun(Action.AFTER)
    making.begin("two")
    making.fault()
    making.execute("two", attempt=2)
    assert found(ended(making)) == []


# --- begun_before_journaled ------------------------------------------------------------------


def beside_an_heir(action: Action) -> Making:
    """A fault right before the body of a step, and somebody else has it done first."""
    making = begun(action, BODY)
    making.fault()
    mine = making.token
    making.claim()
    making.execute("two")
    making.token = mine
    making.begin("two")
    return making


def test_who_stalls_right_before_a_body_begins_it_late() -> None:
    assert found(ended(beside_an_heir(Action.STALL))) == []


def test_who_stalls_right_before_a_body_begins_it_late_once() -> None:
    making = beside_an_heir(Action.STALL)
    making.begin("two", attempt=2)
    assert found(ended(making)) == [LATE, THRICE]


def test_who_loses_a_session_right_before_a_body_does_not_begin_it_late() -> None:
    assert found(ended(beside_an_heir(Action.TERMINATE))) == [LATE]


# --- journaled_as_seen -----------------------------------------------------------------------


@pytest.fixture
def making() -> Making:
    """It was cancelled at its end, so nobody asks what its result is made of."""
    making = went_well("plain-cancelled")
    making.cancel()
    making.end(Status.CANCELLED)
    return making


def unseen(path: str, value: object, token: str) -> list[str]:
    return [f"{path!r} is journaled as {value!r} under {token}, and nobody has seen that"]


def test_a_result_of_a_body_that_nobody_has_seen_end(making: Making) -> None:
    making.unsee("end", "two")
    assert found(making) == unseen("two", ["two", making.token.hex], making.token.hex)


def test_another_result_than_that_of_the_body(making: Making) -> None:
    making.entry("two").value = encode([1])
    assert found(making) == unseen("two", [1], making.token.hex)


def test_a_result_of_another_claim(making: Making) -> None:
    other = making.entry("two").token = uuid4()
    assert found(making) == unseen("two", ["two", making.token.hex], other.hex)


def test_a_compensation_that_nobody_has_seen_end() -> None:
    making = went_well("compensation")
    making.unsee("end", "charge%undo")
    assert found(making) == unseen("charge%undo", ["charge%undo", making.token.hex], making.token.hex)


def test_a_step_that_has_failed_has_no_result(making: Making) -> None:
    making.unsee("end", "two")
    making.entry("two").status = "failed"
    assert found(making) == []


# --- nothing_after_the_cancel ----------------------------------------------------------------


def cancelled_in_two(action: Action | None = None, label: str = "some statement") -> Making:
    making = begun(action, label, name="plain-cancelled")
    making.begin("two")
    making.cancel()
    return making


def test_a_step_that_begins_after_the_cancellation() -> None:
    making = cancelled_in_two()
    making.finish("two")
    making.execute("three")
    making.end(Status.CANCELLED)
    assert found(making) == ["'three' began after the cancellation"]


def test_the_step_that_was_under_way_may_be_tried_again() -> None:
    making = cancelled_in_two(Action.DIE)
    making.fault()
    making.claim()
    making.execute("two")
    making.end(Status.CANCELLED)
    assert found(making) == []


def test_the_same_step_of_another_run_was_not_under_way() -> None:
    making = cancelled_in_two()
    making.start(is_answered=False, parent=making.run)
    making.begin("two")
    for run in making.runs:
        run.status = Status.CANCELLED
    assert found(making) == ["'two' began after the cancellation"]


def test_what_undoes_begins_after_the_cancellation() -> None:
    making = Making("compensation-cancelled")
    making.start()
    making.execute("reserve")
    making.cancel()
    making.execute("reserve%undo")
    making.end(Status.CANCELLED)
    assert found(making) == []


def test_who_stalls_right_before_a_body_begins_it_after_the_cancellation() -> None:
    making = begun(Action.STALL, BODY, name="plain-cancelled")
    making.fault()
    making.cancel()
    making.begin("two")
    making.end(Status.CANCELLED)
    assert found(making) == []

"""What went on after a cancellation is found: each planted in evidence that is made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.cancellations import GRACE
from tests.chaos.evidence import RunRow
from tests.chaos.making import PID, Making
from tests.chaos.planting import ONE_STEP, begun, found, put, row_of
from tests.chaos.repetitions import HEARTBEAT
from tests.chaos.story import CLOCK_STEP


@pytest.mark.parametrize(("seconds", "expected"), [(CLOCK_STEP * 0.9, 0), (CLOCK_STEP * 1.1, 1)])
def test_a_run_that_succeeded_after_it_was_cancelled(making: Making, seconds: float, expected: int) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.cancel("odd")
    making.tick(seconds)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("cancel", run)] * expected


def test_a_run_that_was_over_before_it_was_cancelled(making: Making) -> None:
    making.run("odd", ONE_STEP)
    making.cancel("odd")
    assert found(making) == []


@pytest.mark.parametrize(
    ("path", "seconds", "kind", "expected"),
    [
        ("undoable0", GRACE / 2, "", 0),
        ("undoable0", GRACE + 1, "", 1),
        ("undoable0%undo", GRACE + 1, "", 0),
        ("undoable0", GRACE + 1, "freeze", 0),
        ("undoable0", GRACE + 1, "flush_redis", 1),
        ("undoable0", GRACE + HEARTBEAT / 2, "terminate_backends", 0),
        ("undoable0", GRACE + 1, "terminate_backends", 1),
        ("undoable0", GRACE + 1, "restart_postgres", 1),
    ],
)
def test_a_step_that_began_after_the_cancellation(
    making: Making, path: str, seconds: float, kind: str, expected: int
) -> None:
    run, token = begun(making)
    making.cancel("odd")
    if kind:
        making.hit(kind, *(PID,) if kind == "freeze" else ())
    making.tick(seconds)
    making.execute(run, path, token, 2, ends=False)
    making.leave(run, token, "odd", [["undoable", 1]], "cancelled")
    assert found(making) == [("cancel", run)] * expected


@pytest.mark.parametrize(
    ("lapsed", "pid", "expected"), [(True, PID, []), (False, PID, ["cancel"]), (True, PID + 1, ["cancel"])]
)
def test_a_process_that_is_too_slow_for_its_heartbeats_hears_of_a_cancellation_late(
    making: Making, lapsed: bool, pid: int, expected: list[str]
) -> None:
    """What shows that it is: a lease of it that lapsed by itself."""
    other, lease = begun(making)
    making.enqueue("late")
    token = making.claim("run-late")
    making.cancel("late")
    making.tick(GRACE + 1)
    making.lose(other, lease, lapsed=lapsed)
    making.execute("run-late", "undoable0", token, 2, ends=False, pid=pid)
    making.leave("run-late", token, "late", [["undoable", 1]], "cancelled")
    assert [rule for rule, run in found(making) if run == "run-late"] == expected


# --- and what hangs on it --------------------------------------------------------------------


def end_child(making: Making, child: str, parent: str, token: str, status: str) -> str:
    """A child with one step is over, some time after what was before."""
    making.tick(2 * CLOCK_STEP)
    making.execute(child, "step0", token, 2)
    making.leave(child, token, "", ONE_STEP, status)
    put(making.evidence, replace(row_of(making.evidence, child), parent=parent))
    return child


def cancelled(making: Making, run: str, token: str) -> None:
    """The run that ``begun`` has begun is over at last."""
    making.leave(run, token, "odd", ONE_STEP, "cancelled")


@pytest.mark.parametrize("status", ["succeeded", "cancelled"])
def test_a_child_that_ran_on_when_its_parent_was_cancelled(making: Making, status: str) -> None:
    run, token = begun(making)
    lease = making.claim("run-child")
    making.cancel("odd")
    child = end_child(making, "run-child", run, lease, status)
    cancelled(making, run, token)
    assert found(making) == ([("cancel", child)] if status == "succeeded" else [])


def test_a_child_that_was_over_before_its_parent_was_cancelled(making: Making) -> None:
    run, token = begun(making)
    child = end_child(making, "run-child", run, making.claim("run-child"), "succeeded")
    lease = making.claim("run-grandchild")
    making.cancel("odd")
    # The cancellation does not come by a run that is over.
    end_child(making, "run-grandchild", child, lease, "succeeded")
    cancelled(making, run, token)
    assert found(making) == []


def test_a_grandchild_that_ran_on(making: Making) -> None:
    run, token = begun(making)
    lease, other = making.claim("run-child"), making.claim("run-grandchild")
    making.cancel("odd")
    child = end_child(making, "run-child", run, lease, "cancelled")
    grandchild = end_child(making, "run-grandchild", child, other, "succeeded")
    cancelled(making, run, token)
    assert found(making) == [("cancel", grandchild)]


def test_a_child_of_a_run_whose_cancellation_came_too_late(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    lease = making.claim("run-child")
    making.cancel("odd")
    end_child(making, "run-child", run, lease, "succeeded")
    assert found(making) == []


def test_a_child_that_was_started_after_the_cancellation_and_ended_with_that(making: Making) -> None:
    run, token = begun(making)
    making.cancel("odd")
    making.tick(GRACE + 1)
    making.change("run-child", "queued", "cancelled", None, None, cancelling=True)
    making.evidence.runs.append(RunRow("run-child", "", ONE_STEP, "cancelled", claims=0, parent=run))
    cancelled(making, run, token)
    assert found(making) == []


def test_a_child_that_was_started_after_the_cancellation_and_ran(making: Making) -> None:
    run, token = begun(making)
    making.cancel("odd")
    child = end_child(making, "run-child", run, making.claim("run-child"), "succeeded")
    cancelled(making, run, token)
    assert found(making) == [("cancel", child)]


@pytest.mark.parametrize(
    ("seconds", "kind", "expected"),
    [
        (GRACE / 2, "", 0),
        (GRACE + 1, "", 1),
        (GRACE + 1, "freeze", 0),
        (GRACE + 1, "flush_redis", 1),
        (GRACE + HEARTBEAT / 2, "terminate_backends", 0),
        (GRACE + 1, "terminate_backends", 1),
    ],
)
def test_a_step_that_a_child_began_after_the_cancellation(
    making: Making, seconds: float, kind: str, expected: int
) -> None:
    run, token = begun(making)
    lease = making.claim("run-child")
    making.cancel("odd")
    if kind:
        making.hit(kind, *(PID,) if kind == "freeze" else ())
    making.tick(seconds)
    child = end_child(making, "run-child", run, lease, "cancelled")
    cancelled(making, run, token)
    assert found(making) == [("cancel", child)] * expected


def test_the_children_of_a_cancelled_run_are_cancelled_with_it(making: Making) -> None:
    parent = making.run("odd", ONE_STEP, status="cancelled")
    making.cancel("odd")
    child = making.run("child", ONE_STEP, status="cancelled")
    making.evidence.said = [said for said in making.evidence.said if "child" not in said.tags]
    put(making.evidence, replace(row_of(making.evidence, child), tag="", parent=parent))
    assert found(making) == []

from __future__ import annotations

from typing import Any

import pytest

from django_durable.models import Run
from django_durable.testing import StepNotReached, assert_step_ran, crash_after, run_until_idle
from django_durable.testing.paths import is_called
from tests.app import workflows as app
from tests.app.models import Counter
from tests.testing import flows
from tests.testing.flows import calls

pytestmark = pytest.mark.usefixtures("any_db")


def test_after_the_commit_the_step_does_not_run_again() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("b"):
        assert run_until_idle() == 2
    assert run.result() == "abc"
    assert calls == ["a", "b", "c"]


def test_before_the_commit_it_does() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("b", before=True):
        assert run_until_idle() == 2
    assert run.result() == "abc"
    assert calls == ["a", "b", "b", "c"]


@pytest.mark.parametrize("before", [False, True])
def test_async_workflows_crash_too(before: bool) -> None:
    run = flows.three_steps_async.enqueue()
    with crash_after("a", before=before):
        assert run_until_idle() == 2
    assert run.result() == "ab1"
    assert calls == ["a", "a", "b"] if before else ["a", "b"]


@pytest.mark.parametrize("workflow", [flows.counting, flows.counting_async])
@pytest.mark.parametrize("before", [False, True])
def test_an_atomic_step_writes_once_in_any_case(workflow: Any, before: bool) -> None:
    run = workflow.enqueue()
    with crash_after("count", before=before):
        assert run_until_idle() == 2
    assert (run.result(), Counter.objects.get(name="atomic").value) == (1, 1)
    assert calls == ["a", "c"]


@pytest.mark.parametrize("before", [False, True])
def test_the_workflow_cannot_prevent_it(before: bool) -> None:
    run = flows.stubborn.enqueue()
    with crash_after("b", before=before):
        assert run_until_idle() == 2
    assert run.result() == "through"
    ran = [call for call in calls if not call.startswith("caught")]
    again = ["b"] if before else []
    assert ran == ["a", "finally a", "b", *again, "finally b", "c", "finally c"]
    assert all(step.status == "succeeded" and step.attempts == 1 for step in run.steps())
    assert (run.attempt, run.error) == (1, None)


def test_each_of_several_times() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("b", before=True, times=3):
        assert run_until_idle() == 4
    assert run.result() == "abc"
    assert calls == ["a", "b", "b", "b", "b", "c"]


def test_a_run_that_always_kills_its_process_is_blocked() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("a", before=True, times=4):
        run_until_idle()
    assert (run.refresh().status, run.run.block_reason) == ("blocked", "crashed")


def test_a_suspect_that_gets_on_is_cleared() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("a"), crash_after("b"), crash_after("c"):
        assert run_until_idle() == 4
    assert (run.refresh().status, run.run.suspect, run.run.crashes) == ("succeeded", False, 0)


@pytest.mark.behaviour("RUN-05a")
def test_the_crash_counts_as_no_attempt_and_leaves_no_lease() -> None:
    run = flows.patient.enqueue(1)
    with crash_after("a"):
        run_until_idle()
    row = Run.objects.get(pk=run.id)
    assert (row.status, row.attempt, row.lease_token, row.claims) == ("waiting", 1, None, 2)


def test_keys_and_names_and_paths() -> None:
    app.many_steps.enqueue(3)
    with crash_after("double", times=3):
        assert run_until_idle() == 4
    run = app.many_steps.enqueue(3)
    with crash_after("double[1]"):
        assert run_until_idle() == 2
    assert_step_ran(run, "double", times=3)


@pytest.mark.parametrize("name", ["import/rows[17]/sa%2Fve[2]", "sa%2Fve[2]", "sa%2Fve", "sa/ve"])
def test_what_a_step_may_be_called(name: str) -> None:
    assert is_called("import/rows[17]/sa%2Fve[2]", name)
    assert not is_called("import/rows[17]/save", name)
    assert not is_called("import/rows[17]", name)


def test_a_step_that_fails_for_good_counts_as_reached() -> None:
    run = app.failing.enqueue()
    with crash_after("explode"):
        assert run_until_idle() == 2
    assert run.refresh().status == "failed"
    assert_step_ran(run, "explode", times=2)


def test_the_end_of_a_wait_is_a_place_to_crash() -> None:
    run = flows.patient.enqueue(1)
    with crash_after("nap", before=True):
        assert run_until_idle(skip_waits=True) == 3
    assert run.refresh().status == "succeeded"


def test_a_step_that_is_never_reached_is_told_of() -> None:
    flows.three_steps.enqueue()
    with pytest.raises(StepNotReached, match=r"0 of 1 .* 'a', 'b', 'c'") as caught, crash_after("charge card"):
        run_until_idle()
    assert (caught.value.step, caught.value.happened, caught.value.seen) == ("charge card", 0, ["a", "b", "c"])
    with pytest.raises(StepNotReached, match=r"run_until_idle\(\)"), crash_after("charge card"):
        pass


def test_crashes_that_are_missing_are_told_of() -> None:
    flows.three_steps.enqueue()
    with pytest.raises(StepNotReached, match="1 of 2"), crash_after("a", times=2):
        run_until_idle()


def test_another_error_of_the_block_is_not_covered_up() -> None:
    with pytest.raises(KeyError), crash_after("charge card"):
        raise KeyError


def test_after_the_block_nothing_crashes() -> None:
    flows.three_steps.enqueue()
    with crash_after("a"):
        run_until_idle()
    flows.three_steps.enqueue()
    assert run_until_idle() == 1


@pytest.mark.parametrize(("step", "times"), [("", 1), ("a", 0)])
def test_what_makes_no_sense_is_refused(step: str, times: int) -> None:
    with pytest.raises(ValueError, match="crash_after"), crash_after(step, times=times):
        pass

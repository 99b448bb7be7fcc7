from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from django_durable.exceptions import RunFailed
from django_durable.testing import NotDeterministic, crash_after, force_replay, run_until_idle
from tests.app import workflows as app
from tests.testing import flows
from tests.testing.flows import calls

pytestmark = pytest.mark.usefixtures("any_db")


@pytest.fixture(autouse=True)
def _turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "turns", count())


@pytest.mark.parametrize(("workflow", "result"), [(flows.three_steps, "abc"), (flows.three_steps_async, "ab1")])
def test_each_step_is_followed_by_a_replay_and_runs_once(workflow: Any, result: str) -> None:
    run = workflow.enqueue()
    with force_replay():
        assert run_until_idle() == 4
    assert run.result() == result
    assert len(calls) == len(set(calls))
    assert (run.attempt, run.run.suspect) == (1, False)


def test_atomic_steps_are_replayed_as_well() -> None:
    run = flows.counting.enqueue()
    with force_replay():
        assert run_until_idle() == 4
    assert run.result() == 1


def test_everything_that_is_deterministic_passes() -> None:
    run = flows.deterministic.enqueue()
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.result() == [True, "flaky", "light", ["row 0", "row 1", "row 2"], "abc", None]
    assert calls == ["flaky", "flaky", "light", "row 0", "row 1", "row 2", "a", "b", "c"]


def test_so_does_what_goes_side_by_side_wherever_it_stands() -> None:
    run = flows.many_at_once.enqueue()
    with force_replay():
        run_until_idle(skip_waits=True)
    mapped = ["aa", "bb", "after"]
    assert run.result() == [mapped, {"maps": mapped, "stands": "stands"}, mapped, mapped, ["c", "d"]]
    assert len(calls) == 4 * 3 + 2 + 2


def test_and_a_checkpoint_that_has_something_to_drop() -> None:
    run = flows.checkpoint_after_a_join.enqueue()
    with force_replay():
        run_until_idle()
    assert run.refresh().status == "succeeded"


@pytest.mark.parametrize("workflow", [flows.many_at_once, flows.nothing_removed])
def test_and_a_journal_of_it_from_before_the_block(workflow: Any) -> None:
    run = workflow.enqueue()
    run_until_idle()
    assert run.refresh().status == "waiting"
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.refresh().status == "succeeded"


@pytest.mark.parametrize("workflow", [app.failing, app.listening, app.parent])
def test_failures_waits_and_children_pass(workflow: Any) -> None:
    run = workflow.enqueue(**({"number": 2} if workflow is app.parent else {}))
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.refresh().status == ("succeeded" if workflow is app.parent else "failed")


def test_tasks_of_an_async_workflow() -> None:
    run = flows.in_tasks.enqueue()
    with force_replay():
        assert run_until_idle() == 4
    assert run.result() == ["0", "1", "2"]


def test_calls_side_by_side_fail_as_they_do_without_it() -> None:
    run = flows.gathering.enqueue()
    with force_replay():
        assert run_until_idle() == 1
    with pytest.raises(RunFailed, match="ContextMisuse"):
        run.result()


@pytest.mark.parametrize(
    ("workflow", "text"),
    [
        (flows.names_that_differ, r"asked for 'turn 1' where 'turn 0' came before"),
        (flows.names_that_differ_async, r"asked for 'turn 1' where 'turn 0' came before"),
        (flows.names_that_differ_in_tasks, r"asked for 'turn 1' where 'turn 0' came before"),
        (flows.order_that_differs, r"asked for 'b' where 'a' came before"),
        (flows.kind_that_differs, r"'x' is a step in the journal, but the code now asks for a sleep"),
        (flows.steps_left_out, r"returned without asking for 'a'"),
    ],
)
def test_what_is_not_deterministic_is_found(workflow: Any, text: str) -> None:
    run = workflow.enqueue()
    with force_replay(), pytest.raises(NotDeterministic, match=text) as caught:
        run_until_idle()
    assert caught.value.run_id == run.id
    assert "ctx.now()" in str(caught.value)
    assert run.refresh().status == "queued"
    assert len(calls) == 1


def test_a_workflow_that_catches_everything_is_found_too() -> None:
    run = flows.stubborn.enqueue()
    with force_replay():
        run_until_idle()
    assert run.result() == "through"
    assert [call for call in calls if not call.startswith("caught")] == [
        "a", "finally a", "b", "finally b", "c", "finally c",
    ]  # fmt: skip


def test_a_journal_from_before_the_block_is_held_against_the_code() -> None:
    flows.order_that_differs.enqueue()
    with crash_after("a", before=False), pytest.raises(NotDeterministic, match="asked for 'b' where 'a'"):
        flows.turns = count()
        with force_replay():
            run_until_idle()


def test_a_run_that_waits_since_before_the_block_goes_on() -> None:
    run = flows.patient.enqueue(2)
    run_until_idle()
    with force_replay():
        assert run_until_idle(skip_waits=True) == 2
    assert run.refresh().status == "succeeded"


def test_a_later_attempt_of_the_run_may_go_another_way() -> None:
    run = retried.enqueue()
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.result() == "second"


def test_what_was_resumed_may_go_another_way() -> None:
    run = gives_way.enqueue()
    with force_replay():
        run_until_idle()
        assert run.refresh().status == "failed"
        run.resume()
        run_until_idle()
    assert run.result() == "good"


def test_it_goes_together_with_a_crash() -> None:
    run = flows.three_steps.enqueue()
    with force_replay(), crash_after("b", before=True):
        assert run_until_idle() == 5
    assert run.result() == "abc"
    assert calls == ["a", "b", "b", "c"]


@flows.durable_workflow
def retried(ctx: Any) -> str:
    if ctx.attempt == 1:
        ctx.step("first", flows.note, "first")
        raise ValueError("once more")
    return str(ctx.step("second", flows.note, "second"))


def fail_once() -> str:
    if next(flows.turns) == 0:
        raise ValueError("not yet")
    return "good"


@flows.durable_workflow(retry=flows.ONCE, step_retry=flows.ONCE)
def gives_way(ctx: Any) -> str:
    try:
        return str(ctx.step("try", fail_once))
    except Exception:
        ctx.step("clean up", flows.note, "clean up")
        raise

"""What is lost, there twice or came to something else is found: each planted in evidence that is made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.making import Making
from tests.chaos.planting import FAILING, ONE_STEP, begun, found, put, row_of
from tests.chaos.programs import Program
from tests.chaos.story import UNDO

# --- what is there ---------------------------------------------------------------------------


def test_an_acknowledged_run_that_is_not_there(making: Making) -> None:
    making.enqueue("gone")
    assert found(making) == [("lost", "gone")]


def test_an_acknowledged_run_under_another_id(making: Making) -> None:
    making.run("odd", ONE_STEP)
    making.evidence.said = [
        replace(said, runs={"odd": "run-other"}) if "odd" in said.runs else said for said in making.evidence.said
    ]
    assert found(making) == [("lost", "odd")]


def test_a_run_that_nobody_has_asked_for(making: Making) -> None:
    making.run("odd", ONE_STEP)
    making.evidence.said = [said for said in making.evidence.said if "odd" not in said.tags]
    assert found(making) == [("nobodys", "odd")]


def test_a_child_whose_parent_is_not_there(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    making.evidence.said = [said for said in making.evidence.said if "odd" not in said.tags]
    put(making.evidence, replace(row_of(making.evidence, run), tag="", parent="run-away"))
    assert found(making) == [("nobodys", run)]


def test_a_refused_call_whose_run_is_there(making: Making) -> None:
    making.run("odd", ONE_STEP)
    making.evidence.said = [
        replace(said, moment="refused") if "odd" in said.tags and said.moment == "ok" else said
        for said in making.evidence.said
    ]
    assert found(making) == [("refused", "odd")]


def test_half_of_a_call_that_nobody_heard_of(making: Making) -> None:
    making.run("odd", ONE_STEP)
    making.evidence.said = [said for said in making.evidence.said if "odd" not in said.tags]
    making.enqueue("odd", "even", moment="unknown")
    assert found(making) == [("half", "odd")]


def test_one_key_with_two_runs(making: Making) -> None:
    making.enqueue("odd", key="k2")
    making.run("odd", ONE_STEP)
    evidence = making.evidence
    making.run("odd-again", ONE_STEP)
    evidence.said = [said for said in evidence.said if "odd-again" not in said.tags]
    put(evidence, replace(row_of(evidence, "run-odd-again"), tag="odd"))
    making._call("enqueue", "ok", ["odd"], {"odd": "run-odd-again"}, "k2")
    assert found(making) == [("doubled", "odd"), ("doubled", "run-odd")]


def test_a_run_that_is_not_over(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "waiting")
    assert found(making) == [("unfinished", run)]


# --- what it came to -------------------------------------------------------------------------


def test_a_wrong_result(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    put(making.evidence, replace(row_of(making.evidence, run), output=[3]))
    assert found(making) == [("result", run)]


def test_a_journaled_value_that_no_step_returned(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    entries = making.evidence.entries
    entries[-1] = replace(entries[-1], value={**entries[-1].value, "value": 77})
    assert found(making) == [("result", run)]


def test_a_step_that_is_not_in_the_program(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.execute(run, "step1", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("result", run)]


def test_a_success_without_all_its_steps(making: Making) -> None:
    run, token = begun(making)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("result", run)]


def test_a_run_that_failed_and_should_not_have(making: Making) -> None:
    run = making.run("odd", ONE_STEP, status="failed")
    assert found(making) == [("outcome", run)]


def test_a_run_that_failed_for_another_reason(making: Making) -> None:
    run = making.run("odd", FAILING)
    put(making.evidence, replace(row_of(making.evidence, run), error={"type": "PayloadError"}))
    assert found(making) == [("outcome", run)]


def test_a_run_that_nobody_cancelled(making: Making) -> None:
    run = making.run("odd", ONE_STEP, status="cancelled")
    assert found(making) == [("outcome", run)]


@pytest.mark.parametrize("counted", [0, 2])
def test_an_atomic_step_that_counted_otherwise_than_once(making: Making, counted: int) -> None:
    run = making.run("odd", [["count", 1]])
    making.evidence.counters[run] = counted
    assert found(making) == [("atomic", run)]


def test_what_was_not_undone(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "undoable0", token, 2)
    making.leave(run, token, "odd", [["undoable", 1], ["bad"]], "failed")
    assert found(making) == [("undo", run)]


def test_what_was_undone_and_should_stand(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "undoable0", token, 2)
    making.execute(run, "undoable0%undo", token, 2, kind="undo")
    making.leave(run, token, "odd", [["undoable", 1]], "succeeded")
    assert found(making) == [("undo", run)]


def test_what_was_undone_first_first(making: Making) -> None:
    run, token = begun(making)
    for path in ("undoable0", "undoable1"):
        making.execute(run, path, token, 2)
    for path in ("undoable0%undo", "undoable1%undo"):
        making.execute(run, path, token, 2, kind="undo")
    making.leave(run, token, "odd", [["undoable", 1], ["undoable", 1], ["bad"]], "failed")
    assert found(making) == [("undo", run)]


def test_what_losers_did_is_undone_before_the_rest(making: Making) -> None:
    program: Program = [["race", [["undoable", 1]], [[["undoable", 1]]]], ["bad"]]
    run, token = begun(making)
    first, loser = "race0/winner/undoable0", "race0/loser0/undoable0"
    for path in (loser, first):
        making.execute(run, path, token, 2)
    for path in (loser, first):
        making.execute(run, path + UNDO, token, 2, kind="undo")
    making.leave(run, token, "odd", program, "failed")
    assert found(making) == []


def test_what_was_undone_may_have_left_the_journal(making: Making) -> None:
    making.run("odd", [["undoable", 1], ["loop", [["undoable", 1]], 3], ["bad"]])
    making.evidence.entries = [entry for entry in making.evidence.entries if not entry.path.startswith("loop")]
    assert found(making) == []

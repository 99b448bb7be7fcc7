"""Who wrote without the right to it is found: each planted in evidence that is made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.making import PID, Making
from tests.chaos.planting import ONE_STEP, begun, found
from tests.chaos.programs import LIMIT, Program
from tests.chaos.story import UNDO
from tests.chaos.witness import RAISE, RETURN, UNWIND

UNDONE: Program = [["undoable", 1], ["bad"]]


def test_a_write_under_a_claim_that_was_lost(making: Making) -> None:
    run, stale = begun(making)
    by = making.execute(run, "step0", stale, 2, writes=False)
    making.hit("freeze", PID)
    making.lose(run, stale)
    token = making.claim(run)
    making.write(run, "step0", stale, by, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("stale", run)]


def test_a_result_of_another_claim_than_it_was_written_under(making: Making) -> None:
    run, stale = begun(making)
    by = making.execute(run, "step0", stale, 2, writes=False)
    making.hit("freeze", PID)
    making.lose(run, stale)
    token = making.claim(run)
    making.write(run, "step0", token, by, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("stale", run)]


def test_a_write_in_the_transaction_that_ends_the_claim_is_no_stale_one(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    evidence = making.evidence
    written, ending = evidence.writings[-1], evidence.changes[-1]
    evidence.writings[-1] = replace(written, seq=ending.seq + 1000, xid=ending.xid)
    assert found(making) == []


def with_an_heir(making: Making, program: Program = ONE_STEP) -> tuple[str, str, str]:
    """A run that has been taken from who had come to its end, and claimed anew; its id and both tokens."""
    run, stale = begun(making)
    for node in program:
        if node[0] != "bad":
            making.execute(run, f"{node[0]}0", stale, 2)
    making.hit("freeze", PID)
    making.lose(run, stale)
    return run, stale, making.claim(run)


@pytest.mark.parametrize(
    ("program", "status", "moment"),
    [(ONE_STEP, "succeeded", RETURN), ([["bad"]], "failed", RAISE)],
)
def test_an_outcome_of_a_claim_that_was_lost_under_the_token_of_its_heir(
    making: Making, program: Program, status: str, moment: str
) -> None:
    """As where nothing but the comparison of tokens is missing: what is written bears the token that the run has."""
    run, stale, token = with_an_heir(making, program)
    making.end(moment, run, stale)
    making.leave(run, token, "odd", program, status, claims=2, ends=False)
    assert found(making) == [("stale", run)]
    making.tick(1)
    # That the heir comes to the same end later on explains nothing.
    making.end(moment, run, token)
    assert found(making) == [("stale", run)]


@pytest.mark.parametrize(
    ("program", "status", "moment"),
    [(ONE_STEP, "succeeded", RAISE), (ONE_STEP, "succeeded", UNWIND), ([["bad"]], "failed", RETURN)],
)
def test_an_outcome_that_its_claim_had_not_come_to(making: Making, program: Program, status: str, moment: str) -> None:
    run, _, token = with_an_heir(making, program)
    making.end(moment, run, token)
    making.leave(run, token, "odd", program, status, claims=2, ends=False)
    assert found(making) == [("stale", run)]


@pytest.mark.parametrize(("moment", "expected"), [(RAISE, 0), (UNWIND, 0), (None, 1)])
def test_who_undoes_has_looked_what_there_is_to_undo(making: Making, moment: str | None, expected: int) -> None:
    run, _, token = with_an_heir(making, UNDONE)
    making.execute(run, "undoable0" + UNDO, token, 2, kind="undo")
    if moment is not None:
        making.end(moment, run, token)
    making.leave(run, token, "odd", UNDONE, "failed", claims=2, ends=False)
    assert found(making) == [("stale", run)] * expected


def test_a_run_that_goes_on_after_its_end(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    making.change(run, "succeeded", "queued", None, None)
    making.change(run, "queued", "succeeded", None, None)
    assert found(making) == [("revived", run)]


def test_two_claims_at_a_time(making: Making) -> None:
    run, first = begun(making)
    making.change(run, "running", "running", first, "token-of-another")
    making.execute(run, "step0", "token-of-another", 2)
    making.leave(run, "token-of-another", "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("claims", run)]


def test_a_lease_that_nobody_was_given(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.change(run, "running", "queued", "token-of-nobody", None)
    token = making.claim(run)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("claims", run)]


def test_a_claim_that_was_not_counted(making: Making) -> None:
    run, token = begun(making)
    making.hit("kill", PID)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=1)
    assert found(making) == [("claims", run)]


@pytest.mark.parametrize(("suspects", "deaths", "expected"), [(1, 1, 0), (0, 1, 1), (1, 0, 1)])
def test_a_crash_that_was_counted(making: Making, suspects: int, deaths: int, expected: int) -> None:
    run, token = begun(making)
    making.hit("kill", PID)
    making.lose(run, token, suspect=bool(suspects))
    token = making.claim(run)
    making.tick(5)
    making.evidence.changes[-1] = replace(
        making.evidence.changes[-1], suspect=bool(suspects), at=1_000_000 + making.now
    )
    for _ in range(deaths):
        making.hit("kill", PID)
    making.lose(run, token, crashes=1)
    token = making.claim(run)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=3)
    assert found(making) == [("crashes", run)] * expected


def test_more_runs_under_a_key_than_its_limit(making: Making) -> None:
    tokens = {}
    for number in range(LIMIT + 1):
        making.enqueue(f"odd{number}")
        tokens[number] = making.claim(f"run-odd{number}", limit_key="k")
    for number, token in tokens.items():
        making.execute(f"run-odd{number}", "step0", token, 2)
        making.leave(f"run-odd{number}", token, f"odd{number}", ONE_STEP, "succeeded")
    assert found(making) == [("limit", f"run-odd{LIMIT}")]

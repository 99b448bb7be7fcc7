"""What ran too often, too soon or too late is found: each planted in evidence that is made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import told
from tests.chaos.faults import DELAY, OF_POSTGRES, OF_REDIS, OUTAGES
from tests.chaos.making import PID, Making
from tests.chaos.planting import ONE_STEP, begun, found
from tests.chaos.programs import BACK_OFF, Program
from tests.chaos.repetitions import (
    ABOUT_TO_END,
    HEARTBEAT,
    LAPSED,
    LATE_BEATS,
    LOST_TRANSACTION,
    MISSED_BEATS,
    STARVATION,
    repetitions,
    starved,
)
from tests.chaos.story import CLOCK_STEP
from tests.chaos.witness import BEGIN, DIE, RAISE

# --- again -----------------------------------------------------------------------------------


def repeated(
    making: Making,
    *kinds: str,
    pid: int = PID,
    ends: bool = False,
    lapsed: bool = False,
    path: str = "step0",
    seconds: float = 0.0,
) -> str:
    """A step that began again under another claim, after faults of so many seconds."""
    run, token = begun(making)
    making.execute(run, path, token, 2, ends=ends, writes=False)
    for kind in kinds:
        making.hit(kind, *() if kind in (*OF_POSTGRES, *OF_REDIS) else (pid,), seconds=seconds)
    making.lose(run, token, lapsed=lapsed)
    token = making.claim(run)
    attempt = 2 if path == "count0" else 1
    making.execute(run, path, token, 2, pid=PID + 1, attempt=attempt, is_atomic=path == "count0")
    making.leave(run, token, "odd", ONE_STEP if path == "step0" else [["count", 1]], "succeeded", claims=2)
    return run


@pytest.mark.parametrize("kind", ["kill", "kill_group", "freeze"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_repetition_that_a_fault_of_its_process_explains(making: Making, kind: str, ends: bool) -> None:
    repeated(making, kind, ends=ends)
    assert found(making) == []


LONG = MISSED_BEATS * HEARTBEAT + 0.1


@pytest.mark.parametrize(
    ("kind", "seconds", "why"),
    [
        *((kind, 0.1, LAPSED) for kind in OUTAGES),
        (DELAY, LONG, LAPSED),
        (DELAY, 0.1, STARVATION),
        # The next heartbeat has another session.
        ("terminate_backends", LONG, STARVATION),
        ("cut_after", LONG, STARVATION),
    ],
)
def test_a_fault_of_postgresql_explains_by_what_it_did_to_the_claim(
    making: Making, kind: str, seconds: float, why: str
) -> None:
    repeated(making, kind, lapsed=True, seconds=seconds)
    assert found(making) == []
    assert repetitions(told(making.evidence)) == {why: 1}
    assert len(starved(told(making.evidence))) == (why == STARVATION)


@pytest.mark.parametrize("kind", [*OUTAGES, "freeze"])
def test_a_lease_that_was_renewed_since_a_fault_lapsed_by_itself(making: Making, kind: str) -> None:
    run, token = begun(making)
    making.hit(kind, *() if kind in OUTAGES else (PID,), seconds=0.5)
    making.tick(3.1)
    making.lose(run, token, lapsed=True)
    making.leave(run, making.claim(run), "odd", ONE_STEP, "succeeded", claims=2)
    assert len(starved(told(making.evidence))) == 1


@pytest.mark.parametrize("kind", ["kill", "kill_group", "freeze"])
def test_what_hits_a_process_later_is_no_reason_why_it_gave_its_claim_back(making: Making, kind: str) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2, writes=False)
    making.lose(run, token, suspect=False)
    making.tick(2 * CLOCK_STEP)
    making.hit(kind, PID)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=PID + 1)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("repeated", run)]


@pytest.mark.parametrize("kind", OF_POSTGRES)
def test_a_fault_of_postgresql_explains_by_what_it_did_to_the_transaction(making: Making, kind: str) -> None:
    repeated(making, kind, path="count0")
    assert found(making) == []


def test_who_drains_while_postgresql_is_away_gives_back_what_could_not_be_journaled(making: Making) -> None:
    repeated(making, "drain", "restart_postgres")
    assert found(making) == []


@pytest.mark.parametrize("kind", ["", "drain", *OF_REDIS, *OF_POSTGRES])
def test_a_repetition_that_nothing_explains(making: Making, kind: str) -> None:
    assert found(making) == []
    run = repeated(making, *filter(None, [kind]))
    assert found(making) == [("repeated", run)]
    assert repetitions(told(making.evidence)) == {"nothing": 1}


def handed_back(making: Making, path: str, *, away: float = 0.0, kind: str = "freeze_postgres") -> str:
    """A step that began again after its claim was handed back by who had it."""
    run, token = begun(making)
    if away:
        making.hit(kind, seconds=away)
    making.execute(run, path, token, 2, writes=False)
    making.lose(run, token, suspect=False)
    token = making.claim(run)
    making.execute(run, path, token, 2, is_atomic=path == "count0")
    making.leave(run, token, "odd", ONE_STEP if path == "step0" else [["count", 1]], "succeeded", claims=2)
    return run


def test_an_atomic_step_may_give_way_with_all_that_it_did(making: Making) -> None:
    handed_back(making, "count0")
    assert found(making) == []
    assert repetitions(told(making.evidence)) == {LOST_TRANSACTION: 1}


@pytest.mark.parametrize(
    ("kind", "beats", "why"),
    [
        ("freeze_postgres", 0.0, None),
        ("freeze_postgres", 0.9, None),
        ("freeze_postgres", 1.1, ABOUT_TO_END),
        (DELAY, 1.9, None),
        (DELAY, 2.1, LATE_BEATS),
    ],
)
def test_who_cannot_renew_a_lease_gives_it_back_before_its_end(
    making: Making, kind: str, beats: float, why: str | None
) -> None:
    run = handed_back(making, "step0", away=beats * HEARTBEAT, kind=kind)
    assert found(making) == ([] if why else [("repeated", run)])
    assert repetitions(told(making.evidence)) == {why or "nothing": 1}


@pytest.mark.parametrize("kind", ["", "drain", *OF_REDIS])
def test_an_atomic_step_that_counts_once_and_runs_twice_has_lost_a_transaction(making: Making, kind: str) -> None:
    run = repeated(making, *filter(None, [kind]), path="count0")
    assert found(making) == [("repeated", run)]


def test_a_fault_explains_nothing_in_another_process(making: Making) -> None:
    run = repeated(making, "kill", pid=PID + 7)
    assert found(making) == [("repeated", run)]


def test_a_fault_explains_nothing_long_before(making: Making) -> None:
    making.hit("restart_postgres")
    making.tick(30)
    run = repeated(making)
    assert found(making) == [("repeated", run)]


def test_a_lease_that_lapsed_by_itself_explains_and_is_counted(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2, ends=False)
    making.lose(run, token, lapsed=True)
    token = making.claim(run)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == []
    assert len(starved(told(making.evidence))) == 1
    # Apart from those that a fault has cost their lease.
    assert repetitions(told(making.evidence)) == {STARVATION: 1}


def test_a_step_that_kills_its_process_explains(making: Making) -> None:
    run, token = begun(making)
    by = making.execute(run, "poison0", token, 2, ends=False)
    making.say(DIE, run, "poison0", token, by)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "poison0", token, 2)
    making.leave(run, token, "odd", [["poison", 1]], "succeeded", claims=2)
    assert found(making) == []


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, 0), (30.0, 1)])
def test_what_a_process_begins_while_it_is_being_killed(making: Making, seconds: float, expected: int) -> None:
    run, token = begun(making)
    making.hit("kill", PID)
    making.tick(seconds)
    making.execute(run, "step0", token, 2, ends=False)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=PID + 1)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("repeated", run)] * expected


def test_a_repetition_within_one_claim(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2, writes=False)
    making.hit("kill", PID)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("repeated", run)]


def test_an_atomic_step_runs_once_under_a_claim_that_is_handed_back_later(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "count0", token, 2, writes=False)
    making.execute(run, "count0", token, 2, is_atomic=True)
    making.lose(run, token, suspect=False)
    making.leave(run, making.claim(run), "odd", [["count", 1]], "succeeded", claims=2)
    assert found(making) == [("repeated", run)]


def test_a_repetition_by_who_came_after_the_commit(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.hit("kill", PID)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, writes=False)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("repeated", run)]


@pytest.mark.parametrize(
    ("kind", "pid", "lapsed", "expected"),
    [
        ("freeze", PID, False, 0),
        # It is both a repetition without a reason and one that is too late.
        ("kill", PID + 1, False, 2),
        *((kind, PID, False, 2) for kind in OF_POSTGRES),
        ("kill", PID + 1, True, 0),
    ],
)
def test_a_repetition_by_who_was_there_before_the_commit(
    making: Making, kind: str, pid: int, lapsed: bool, expected: int
) -> None:
    run, old = begun(making)
    making.lose(run, old, lapsed=lapsed)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=PID + 1)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    making.hit(kind, pid)
    making.tick(1)
    making.execute(run, "step0", old, 2, writes=False)
    assert found(making) == [("repeated", run)] * expected


def test_an_execution_under_what_is_no_claim(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    # It explains that it was executed again, and not by whom.
    making.hit("kill", PID)
    making.execute(run, "step0", "token-of-nobody", 2, writes=False)
    assert found(making) == [("repeated", run)]


def test_a_witness_line_that_is_there_twice(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    twice = [line for line in making.evidence.lines if line.run == run]
    making.evidence.lines += [replace(line, by="again", at=line.at + 0.001) for line in twice]
    assert set(found(making)) == {("repeated", run)}


def test_a_result_that_was_journaled_anew(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    entry = making.evidence.entries.pop()
    by = making.execute(run, "step0", token, 2, writes=False)
    making.write(run, "step0", token, by, 2)
    making.evidence.entries[-1] = entry
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert set(found(making)) == {("repeated", run)}


def test_a_result_that_no_execution_came_to(making: Making) -> None:
    run, token = begun(making)
    making.write(run, "step0", token, "0000000000ff", 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("unwitnessed", run)]


def test_an_entry_whose_result_was_exchanged_afterwards(making: Making) -> None:
    run = making.run("odd", ONE_STEP)
    entries = making.evidence.entries
    entries[-1] = replace(entries[-1], value={"value": 2, "by": "0000000000ff"})
    assert found(making) == [("repeated", run)]


# --- attempts and times ----------------------------------------------------------------------


def stumbled(making: Making, *, attempts: int, pause: float) -> str:
    run, token = begun(making)
    program: Program = [["flaky", 1, 1]]
    for attempt in range(1, attempts):
        by = f"flaky-{attempt}"
        making.say(BEGIN, run, "flaky0", token, by, attempt=attempt)
        making.say(RAISE, run, "flaky0", token, by, attempt=attempt)
        making.tick(pause)
    making.execute(run, "flaky0", token, 2, attempt=attempts)
    making.leave(run, token, "odd", program, "succeeded")
    return run


def test_an_attempt_after_its_time(making: Making) -> None:
    stumbled(making, attempts=2, pause=BACK_OFF)
    assert found(making) == []


def test_an_attempt_too_early(making: Making) -> None:
    run = stumbled(making, attempts=2, pause=BACK_OFF / 2)
    assert found(making) == [("attempts", run)]


def test_an_attempt_too_many(making: Making) -> None:
    run = stumbled(making, attempts=3, pause=BACK_OFF)
    assert found(making) == [("attempts", run)]


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, 0), (3.0, 1)])
def test_a_sleep_that_ended_early(making: Making, seconds: float, expected: int) -> None:
    run = making.run("odd", [["sleep", seconds]])
    assert found(making) == [("early", run)] * expected

"""The checker finds what is planted, and nothing else: evidence that is made by hand, and spoiled in one place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import check, told
from tests.chaos.evidence import Evidence, RunRow
from tests.chaos.faults import OF_POSTGRES, OF_REDIS, REPEATS
from tests.chaos.making import PID, Making
from tests.chaos.programs import LIMIT, Program
from tests.chaos.repetitions import GRACE, starved
from tests.chaos.story import UNDO
from tests.chaos.witness import BEGIN, DIE, RAISE

PROGRAM: Program = [["step", 1, 0.0], ["count", 2], ["undoable", 3], ["sleep", 0.01]]
FAILING: Program = [["undoable", 1], ["undoable", 2], ["bad"]]
ONE_STEP: Program = [["step", 1, 0.0]]


@pytest.fixture
def making() -> Making:
    """Some runs that went well, beside which something is planted."""
    making = Making()
    making.run("fine", PROGRAM)
    making.run("failing", FAILING)
    making.run("keyed", ONE_STEP, key="k")
    making.enqueue("keyed", key="k")
    return making


def found(making: Making) -> list[tuple[str, str]]:
    return [(violation.rule, violation.run) for violation in check(making.evidence)]


def begun(making: Making) -> tuple[str, str]:
    """A run with the tag "odd" that is claimed; its id and its token."""
    making.enqueue("odd")
    return "run-odd", making.claim("run-odd")


def put(evidence: Evidence, row: RunRow) -> None:
    """In the place of the row of the same run."""
    evidence.runs[:] = [row if one.id == row.id else one for one in evidence.runs]


def row_of(evidence: Evidence, run: str) -> RunRow:
    return next(row for row in evidence.runs if row.id == run)


def test_what_went_well_is_no_violation(making: Making) -> None:
    making.enqueue("unheard", moment="unknown")
    making.run("cancelled", ONE_STEP, status="cancelled")
    making.cancel("cancelled")
    assert found(making) == []


# --- losses ----------------------------------------------------------------------------------


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


# --- leases ----------------------------------------------------------------------------------


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


# --- repetitions -----------------------------------------------------------------------------


def repeated(making: Making, *, kind: str, pid: int = PID, ends: bool = False) -> str:
    """A step that began again under another claim, after a fault."""
    run, token = begun(making)
    making.execute(run, "step0", token, 2, ends=ends, writes=False)
    if kind:
        making.hit(kind, *() if kind in (*OF_POSTGRES, *OF_REDIS) else (pid,))
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=PID + 1)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    return run


@pytest.mark.parametrize("kind", [kind for kind in REPEATS if kind != "poison"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_repetition_that_a_fault_explains(making: Making, kind: str, ends: bool) -> None:
    repeated(making, kind=kind, ends=ends)
    assert found(making) == []


@pytest.mark.parametrize("kind", ["", "drain", *OF_REDIS])
def test_a_repetition_that_nothing_explains(making: Making, kind: str) -> None:
    assert found(making) == []
    run = repeated(making, kind=kind)
    assert found(making) == [("repeated", run)]


def test_a_fault_explains_nothing_in_another_process(making: Making) -> None:
    run = repeated(making, kind="kill", pid=PID + 7)
    assert found(making) == [("repeated", run)]


def test_a_fault_explains_nothing_long_before(making: Making) -> None:
    making.hit("restart_postgres")
    making.tick(30)
    run = repeated(making, kind="")
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


def test_a_repetition_by_who_came_after_the_commit(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.hit("kill", PID)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, writes=False)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    assert found(making) == [("repeated", run)]


@pytest.mark.parametrize(("kind", "pid", "expected"), [("freeze", PID, 0), ("kill", PID + 1, 1)])
def test_a_repetition_by_who_was_there_before_the_commit(making: Making, kind: str, pid: int, expected: int) -> None:
    run, old = begun(making)
    making.lose(run, old, lapsed=True)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=PID + 1)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    making.hit(kind, pid)
    making.tick(1)
    making.execute(run, "step0", old, 2, writes=False)
    assert found(making) == [("repeated", run)] * expected


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
    stumbled(making, attempts=2, pause=0.06)
    assert found(making) == []


def test_an_attempt_too_early(making: Making) -> None:
    run = stumbled(making, attempts=2, pause=0.02)
    assert found(making) == [("attempts", run)]


def test_an_attempt_too_many(making: Making) -> None:
    run = stumbled(making, attempts=3, pause=0.06)
    assert found(making) == [("attempts", run)]


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, 0), (3.0, 1)])
def test_a_sleep_that_ended_early(making: Making, seconds: float, expected: int) -> None:
    run = making.run("odd", [["sleep", seconds]])
    assert found(making) == [("early", run)] * expected


# --- cancellation ----------------------------------------------------------------------------


def test_a_run_that_succeeded_after_it_was_cancelled(making: Making) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2)
    making.cancel("odd")
    making.leave(run, token, "odd", ONE_STEP, "succeeded")
    assert found(making) == [("cancel", run)]


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


def test_the_children_of_a_cancelled_run_are_cancelled_with_it(making: Making) -> None:
    parent = making.run("odd", ONE_STEP, status="cancelled")
    making.cancel("odd")
    child = making.run("child", ONE_STEP, status="cancelled")
    making.evidence.said = [said for said in making.evidence.said if "child" not in said.tags]
    put(making.evidence, replace(row_of(making.evidence, child), tag="", parent=parent))
    assert found(making) == []


def test_what_the_tables_show_by_themselves_is_told(making: Making) -> None:
    making.evidence.invariants.append("I1 run-x: has half a lease")
    assert found(making) == [("invariant", "")]


def test_times_of_the_database_are_made_monotonic(making: Making) -> None:
    assert told(making.evidence).monotonic(1_000_012.5) == 12.5

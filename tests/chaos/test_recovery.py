"""Which faults have hit a step, and how long it took until the run went on."""

from __future__ import annotations

import pytest

from tests.chaos.checker import told
from tests.chaos.evidence import Began
from tests.chaos.making import EPOCH, PID, WORKER, Making
from tests.chaos.programs import Program
from tests.chaos.recovery import hits, percentile, recoveries
from tests.chaos.witness import DIE, END
from tests.chaos.zombies import zombies

ONE_STEP: Program = [["step", 1, 0.0]]
HEIR, HEIRS_WORKER, NEWCOMER = 200, "worker-2", 300


def killed_in_a_step(making: Making, *, kind: str = "kill") -> str:
    """The token of the claim whose process was killed while the step was under way."""
    making.enqueue("odd")
    token = making.claim("run-odd")
    by = making.execute("run-odd", "step0", token, ends=False)
    if kind == "poison":
        making.say(DIE, "run-odd", "step0", token, by)
    else:
        making.hit(kind, PID)
    return token


def gone_on(making: Making, token: str) -> None:
    making.lose("run-odd", token)
    token = making.claim("run-odd")
    making.execute("run-odd", "step0", token, 2, pid=HEIR)
    making.leave("run-odd", token, "odd", ONE_STEP, "succeeded", claims=2)


@pytest.mark.parametrize("kind", ["kill", "kill_group", "poison"])
def test_the_time_until_the_step_begins_again(kind: str) -> None:
    making = Making()
    token = killed_in_a_step(making, kind=kind)
    making.tick(3)
    gone_on(making, token)
    [recovery] = recoveries(told(making.evidence))
    assert recovery.seconds == pytest.approx(3, abs=0.05)
    assert recovery.clear == recovery.seconds


@pytest.mark.parametrize("kind", ["freeze", "drain", "restart_postgres"])
def test_only_deaths_are_recovered_from(kind: str) -> None:
    making = Making()
    gone_on(making, killed_in_a_step(making, kind=kind))
    assert recoveries(told(making.evidence)) == []


def test_the_time_without_a_database_is_told_apart() -> None:
    making = Making()
    token = killed_in_a_step(making)
    making.tick(1)
    making.hit("restart_postgres", seconds=2)
    making.hit("kill_redis", seconds=1)
    gone_on(making, token)
    [recovery] = recoveries(told(making.evidence))
    assert recovery.seconds == pytest.approx(4, abs=0.05)
    assert recovery.clear == pytest.approx(2, abs=0.05)


def test_the_time_without_any_supervisor_is_told_apart() -> None:
    making = Making()
    making.evidence.began = [
        Began(PID, "here", EPOCH),
        Began(HEIR, "there", EPOCH + 1),
        Began(HEIR + 1, "there", EPOCH),
    ]
    making.tick(1)
    making.hit("freeze", HEIR, HEIR + 1, seconds=1)
    token = killed_in_a_step(making, kind="kill_group")
    making.tick(1)
    making.hit("freeze", HEIR, HEIR + 1, seconds=3)
    making.tick(0.5)
    making.hit("restart_postgres", seconds=1)
    making.hit("drain", HEIR + 1)
    making.tick(0.5)
    making.evidence.began.append(Began(NEWCOMER, "here", EPOCH + making.now, is_isolated=True))
    making.tick(0.5)
    making.evidence.began.append(Began(NEWCOMER + 1, "here", EPOCH + making.now))
    making.tick(0.25)
    gone_on(making, token)
    [recovery] = recoveries(told(making.evidence))
    assert recovery.seconds == pytest.approx(6.75, abs=0.05)
    assert recovery.clear == pytest.approx(1 + 0.5 + 0.25, abs=0.05)


@pytest.mark.parametrize("began", [[Began(PID, "here", EPOCH)], []])
@pytest.mark.parametrize("kind", ["kill", "poison"])
def test_a_supervisor_that_lost_its_only_process_is_there(kind: str, began: list[Began]) -> None:
    """It starts another, and calls the one that stands by: that this takes its time is what is measured."""
    making = Making()
    making.evidence.began = began
    token = killed_in_a_step(making, kind=kind)
    making.tick(3)
    making.evidence.began.append(Began(HEIR, "here", EPOCH + making.now, is_isolated=True))
    gone_on(making, token)
    [recovery] = recoveries(told(making.evidence))
    assert recovery.clear == recovery.seconds == pytest.approx(3, abs=0.05)


def test_who_is_hit_again_is_counted_from_that() -> None:
    making = Making()
    making.evidence.workers[HEIRS_WORKER] = HEIR
    token = killed_in_a_step(making)
    making.lose("run-odd", token)
    making.tick(1)
    second = making.claim("run-odd")
    change = making.evidence.changes[-1]
    making.evidence.changes[-1] = type(change)(
        change.seq, change.xid, EPOCH + making.now, "run-odd", "queued", "running", None, second, HEIRS_WORKER
    )
    making.hit("kill", HEIR)
    making.tick(1)
    gone_on(making, second)
    [recovery] = recoveries(told(making.evidence))
    assert recovery.seconds == pytest.approx(2, abs=0.05) and recovery.clear is None


def test_a_claim_that_was_lost_before_the_death_is_none_of_its_victims() -> None:
    making = Making()
    making.enqueue("odd")
    token = making.claim("run-odd")
    making.execute("run-odd", "step0", token, ends=False)
    making.lose("run-odd", token)
    making.hit("kill", PID)
    token = making.claim("run-odd")
    making.execute("run-odd", "step0", token, 2, pid=HEIR)
    making.leave("run-odd", token, "odd", ONE_STEP, "succeeded", claims=2)
    assert recoveries(told(making.evidence)) == []


@pytest.mark.parametrize(
    ("kind", "pids", "expected"),
    [
        ("kill", (PID,), 1),
        ("kill", (HEIR,), 0),
        ("drain", (HEIR, PID), 1),
        ("restart_postgres", (), 1),
        ("terminate_backends", (), 0),
        ("flush_redis", (), 0),
    ],
)
def test_which_faults_hit_a_running_step(kind: str, pids: tuple[int, ...], expected: int) -> None:
    making = Making()
    making.hit(kind, *pids)
    making.enqueue("odd")
    making.execute("run-odd", "step0", making.claim("run-odd"), ends=False)
    making.hit(kind, *pids)
    assert len(hits(told(making.evidence))) == expected


def test_a_process_is_hit_once_by_what_kills_it() -> None:
    making = Making()
    killed_in_a_step(making)
    making.tick(1)
    making.hit("restart_postgres")
    assert [fault.kind for fault in hits(told(making.evidence))] == ["kill"]
    assert making.evidence.workers == {WORKER: PID}


def test_percentiles() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (51, 100, 100)
    assert percentile([], 0.5) == 0.0


@pytest.mark.parametrize(
    ("is_lost", "has_heir", "expected"), [(False, False, []), (True, False, [False]), (True, True, [True])]
)
def test_who_ends_a_step_without_a_claim(is_lost: bool, has_heir: bool, expected: list[bool]) -> None:
    making = Making()
    making.enqueue("odd")
    token = making.claim("run-odd")
    by = making.execute("run-odd", "step0", token, ends=False)
    if is_lost:
        making.lose("run-odd", token)
    if has_heir:
        making.claim("run-odd")
    making.say(END, "run-odd", "step0", token, by)
    assert [is_contested for _, is_contested in zombies(told(making.evidence))] == expected

"""Of two executions of a step, which was under the older claim decides what may explain the other one."""

from __future__ import annotations

import pytest

from tests.chaos.checker import told
from tests.chaos.faults import OUTAGES
from tests.chaos.making import PID, Making
from tests.chaos.planting import ONE_STEP, begun, found
from tests.chaos.repetitions import HELD_UP, LATE_START, repetitions

HEIR, NEXT = PID + 1, PID + 2


def late(making: Making, *kinds: str, lapsed: bool, pid: int = PID) -> str:
    """The older claim's process begins the step after that of its heir, and after faults of a process."""
    run, old = begun(making)
    making.lose(run, old, lapsed=lapsed)
    token = making.claim(run)
    by = making.execute(run, "step0", token, 2, pid=HEIR, writes=False)
    for kind in kinds:
        making.hit(kind, pid)
    making.execute(run, "step0", old, 2, writes=False)
    making.write(run, "step0", token, by, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    return run


@pytest.mark.parametrize(
    ("kinds", "lapsed", "why"),
    [(["freeze"], False, LATE_START), ([], True, HELD_UP), (["freeze"], True, LATE_START)],
)
def test_who_was_held_up_with_its_claim_starts_late(making: Making, kinds: list[str], lapsed: bool, why: str) -> None:
    late(making, *kinds, lapsed=lapsed)
    assert found(making) == []
    assert repetitions(told(making.evidence)) == {why: 1}


@pytest.mark.parametrize("kind", OUTAGES)
def test_who_cannot_renew_a_lease_has_to_know_when_it_is_over(making: Making, kind: str) -> None:
    """That PostgreSQL is away holds no thread up: of these there may be few."""
    making.hit(kind, seconds=3.0)
    late(making, lapsed=True)
    assert repetitions(told(making.evidence)) == {HELD_UP: 1}


@pytest.mark.parametrize("kinds", [[], ["kill"], ["freeze"]])
def test_what_hits_the_heir_holds_nobody_else_up(making: Making, kinds: list[str]) -> None:
    run = late(making, *kinds, lapsed=False, pid=HEIR)
    assert found(making) == [("repeated", run)]


@pytest.mark.parametrize("trouble", ["", "a freeze", "a lapsed lease"])
def test_what_becomes_of_the_newer_claim_is_no_reason_why_it_came(making: Making, trouble: str) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2, writes=False)
    making.lose(run, token)
    token = making.claim(run)
    if trouble == "a freeze":
        making.hit("freeze", HEIR)
    making.execute(run, "step0", token, 2, pid=HEIR)
    claims = 2
    if trouble == "a lapsed lease":
        making.lose(run, token, lapsed=True)
        token, claims = making.claim(run), 3
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=claims)
    assert found(making) == [("repeated", run)]


@pytest.mark.parametrize(("kinds", "reason"), [(["kill"], "a death"), ([], "nothing")])
def test_who_starts_late_explains_nothing_of_what_comes_after_it(making: Making, kinds: list[str], reason: str) -> None:
    """The third claim is there since the second one is over."""
    run, old = begun(making)
    making.lose(run, old, lapsed=True)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=HEIR, ends=False)
    making.execute(run, "step0", old, 2, writes=False)
    for kind in kinds:
        making.hit(kind, HEIR)
    making.lose(run, token)
    token = making.claim(run)
    making.execute(run, "step0", token, 2, pid=NEXT)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=3)
    assert repetitions(told(making.evidence)) == {HELD_UP: 1, reason: 1}
    assert found(making) == [("repeated", run)] * (reason == "nothing")

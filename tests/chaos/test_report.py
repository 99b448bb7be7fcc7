"""What the table and the last line say of a run of chaos."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.chaos.checker import told
from tests.chaos.evidence import RunRow, Violation
from tests.chaos.goals import HANDOVERS_A_MINUTE, Missed
from tests.chaos.handovers import TO_NEW, TO_OLD
from tests.chaos.making import Making
from tests.chaos.planting import ONE_STEP, begun, recovered
from tests.chaos.repetitions import LAPSED, STARVATION
from tests.chaos.report import as_data, table
from tests.chaos.totals import Totals
from tests.chaos.tries import Earlier


def test_the_last_line_sorts_what_is_wrong(totals: Totals) -> None:
    rules = ["lost", "half", "stale", "revived", "repeated", "atomic", "unfinished", "limit"]
    totals.violations = [Violation(rule, "run", "text") for rule in rules]
    data = json.loads(json.dumps(as_data(totals)))
    assert (data["lost"], data["stale_writes"], data["unexplained_repetitions"], data["unfinished"]) == (2, 2, 2, 1)
    assert data["violations"] == len(rules)
    assert all(f"{rule}: text [run]" in table(totals) for rule in rules)


def test_the_last_line_says_which_goals_were_missed(totals: Totals) -> None:
    assert as_data(totals)["missed"] == []
    totals.contested = 0
    assert as_data(totals)["missed"] == [{"goal": "zombies_beside_an_heir", "figure": 0, "wanted": 1}]


def test_the_last_line_says_what_was_tried_before(totals: Totals) -> None:
    data = as_data(totals)
    assert (data["tries"], data["missed_before"]) == (1, [])
    slow = Missed("recovery", 5.13, 4.5, "recovery took 5.13 s")
    few = Missed("acknowledged", 900, 1_000, "too few")
    data = json.loads(json.dumps(as_data(totals, [Earlier("seed", (slow, few)), Earlier("seed.1", (few,))])))
    assert data["tries"] == 3
    first, second = data["missed_before"]
    assert (first["seed"], second["seed"]) == ("seed", "seed.1")
    assert first["missed"][0] == {"goal": "recovery", "figure": 5.13, "wanted": 4.5}
    assert first["missed"][1:] == second["missed"] == [{"goal": "acknowledged", "figure": 900, "wanted": 1_000}]


# --- recovery --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "is_within", "beyond"), [((4.5, 1.0), True, 0), ((4.6, 4.7, 1.0), False, 2), ((), False, 0)]
)
def test_recovery_stands_beside_what_is_wanted_whatever_is_allowed(
    totals: Totals, seconds: tuple[float, ...], is_within: bool, beyond: int
) -> None:
    totals.rounds = [recovered(*seconds, start=2.0)]
    said = as_data(totals)["recovery"]
    assert (said["wanted"], said["allowed"], said["start"]) == (4.5, [6.5, 6.5], [2.0, 2.0])
    assert (said["clear"], said["within_wanted"], said["beyond_wanted"]) == (len(seconds), is_within, beyond)
    assert f"4.5 s wanted, and {beyond} took longer; 6.5 s allowed" in table(totals)


def test_who_was_hit_again_is_seen_beside_those_that_were_not(totals: Totals) -> None:
    totals.rounds = [recovered(*[4.0] * 3, again=1)]
    said = as_data(totals)["recovery"]
    assert (said["max"], said["clear_p99"], said["clear"]) == (60.0, 4.0, 3)
    assert (said["hit_again"], said["hit_again_part"]) == (1, 0.25)
    assert "1 were hit again" in table(totals)


def test_what_rounds_allow_is_told_from_the_least_to_the_most(totals: Totals) -> None:
    totals.rounds = [recovered(5.0, start=2.0), recovered(5.0, 4.0, start=1.0)]
    said = as_data(totals)["recovery"]
    assert (said["allowed"], said["start"], said["beyond_allowed"]) == ([4.5, 6.5], [1.0, 2.0], 1)
    assert "4.5 to 6.5 s allowed where a start takes 1.0 to 2.0 s, and 1 took longer than" in table(totals)


# --- two releases ----------------------------------------------------------------------------


def test_handovers_are_told_where_there_are_two_releases(totals: Totals) -> None:
    assert "code" not in table(totals)
    totals.handovers = Counter({TO_NEW: HANDOVERS_A_MINUTE, TO_OLD: 3})
    totals.old = 1
    assert f"3 from {TO_OLD} code" in table(totals)
    assert as_data(totals)["handovers"] == {TO_NEW: HANDOVERS_A_MINUTE, TO_OLD: 3}


# --- sums ------------------------------------------------------------------------------------


def test_children_that_were_cancelled_are_counted(making: Making) -> None:
    run, token = begun(making)
    making.cancel("odd")
    for child in ("run-child", "run-other"):
        making.change(child, "queued", "cancelled", None, None, cancelling=True)
        making.evidence.runs.append(RunRow(child, "", ONE_STEP, "cancelled", claims=0, parent=run))
    making.leave(run, token, "odd", ONE_STEP, "cancelled")
    totals = Totals("seed")
    totals.add(told(making.evidence), 30.0, 1.0, [])
    assert as_data(totals)["cancelled_children"] == 2
    assert "2 children were cancelled" in table(totals)


def test_claims_are_counted_beside_the_leases_that_lapsed_by_themselves(making: Making) -> None:
    run, token = begun(making)
    making.lose(run, token, lapsed=True)
    making.leave(run, making.claim(run), "odd", ONE_STEP, "succeeded", claims=2)
    totals = Totals("seed")
    totals.add(told(making.evidence), 30.0, 1.0, [])
    # The fixture has claimed three runs.
    assert (totals.claims, totals.starved) == (5, 1)
    assert [one.start for one in totals.rounds] == [1.0]
    data = as_data(totals)
    assert (data["claims"], data["starved"]) == (5, 1)
    assert "1 of 5 leases lapsed without a fault" in table(totals)


@pytest.mark.parametrize(("faults", "why"), [([], STARVATION), (["freeze_postgres"], LAPSED)])
def test_repetitions_by_starvation_are_told_apart_from_those_by_faults(
    making: Making, faults: list[str], why: str
) -> None:
    run, token = begun(making)
    making.execute(run, "step0", token, 2, ends=False)
    for kind in faults:
        making.hit(kind, seconds=0.1)
    making.lose(run, token, lapsed=True)
    token = making.claim(run)
    making.execute(run, "step0", token, 2)
    making.leave(run, token, "odd", ONE_STEP, "succeeded", claims=2)
    totals = Totals("seed")
    totals.add(told(making.evidence), 30.0, 1.0, [])
    assert as_data(totals)["repetitions"] == {why: 1}
    assert f"1 after {why}" in table(totals)

"""Which goals a run of chaos has missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.chaos.evidence import Violation
from tests.chaos.goals import (
    FAULTS_A_MINUTE,
    HANDOVERS_A_MINUTE,
    HITS_A_MINUTE,
    RECOVERIES_A_MINUTE,
    RUNS_A_MINUTE,
    STARVED_AT_ONCE,
    Verdict,
    missed,
    verdict,
)
from tests.chaos.handovers import TO_NEW, TO_OLD
from tests.chaos.planting import recovered
from tests.chaos.repetitions import HELD_UP
from tests.chaos.totals import Totals

FEW, MANY = 100, 5_000
"""Claims, of which a hundredth is less than what one process works on, and more."""


def test_what_is_good_enough(totals: Totals) -> None:
    assert list(missed(totals)) == []
    assert verdict(totals) is Verdict.HOLDS


def spoil(**values: object) -> Callable[[Totals], None]:
    def spoils(totals: Totals) -> None:
        for name, value in values.items():
            setattr(totals, name, value)

    return spoils


@pytest.mark.parametrize(
    ("spoils", "goal", "figures", "words"),
    [
        (
            spoil(acknowledged=RUNS_A_MINUTE // 2 - 1),
            "acknowledged",
            (999, 1_000),
            "999 acknowledged runs in 0.5 minutes",
        ),
        (spoil(faults=Counter(kill=FAULTS_A_MINUTE // 2 - 1)), "faults", (29, 30), "29 faults in 0.5 minutes"),
        (spoil(hits=Counter(kill=HITS_A_MINUTE // 2 - 1)), "hit_a_running_step", (9, 10), "that hit a running step"),
        (spoil(contested=0), "zombies_beside_an_heir", (0, 1), "beside an heir"),
        (spoil(rounds=[recovered(4.0, 4.0, 4.0, 4.0)]), "recoveries", (4, 5), "4 recoveries"),
        (spoil(rounds=[recovered(*[4.0] * 4, 5.0)]), "recovery", (5.0, 4.5), "recovery took 5.00 s"),
        (spoil(rounds=[recovered(*[4.0] * 5, again=2)]), "hit_again", (2, 1), "2 of 7 recoveries were hit again"),
        (spoil(claims=MANY, starved=16), "starved", (16, 15), "16 of 5,000 leases lapsed without a fault"),
        (spoil(claims=FEW, starved=STARVED_AT_ONCE + 1), "starved", (9, 8), "9 of 100 leases"),
        (spoil(claims=FEW, repetitions=Counter({HELD_UP: 2})), "held_up", (2, 1), "2 steps began late"),
        (spoil(claims=30_000, repetitions=Counter({HELD_UP: 7})), "held_up", (7, 6), "7 steps began late"),
        (spoil(violations=[Violation("lost", "tag", "is gone")]), "violations", (1, 0), "1 lost"),
    ],
)
def test_each_goal_that_is_missed_is_told(
    totals: Totals, spoils: Callable[[Totals], None], goal: str, figures: tuple[float, float], words: str
) -> None:
    spoils(totals)
    [one] = missed(totals)
    assert (one.goal, (one.figure, one.wanted)) == (goal, figures)
    assert words in str(one)


def test_only_what_is_wrong_is_the_last_word(totals: Totals) -> None:
    totals.acknowledged -= 1
    assert verdict(totals) is Verdict.MISSED
    totals.violations = [Violation("lost", "tag", "is gone")]
    assert verdict(totals) is Verdict.WRONG


# --- leases that lapse by themselves ---------------------------------------------------------


@pytest.mark.parametrize(("claims", "starved"), [(0, 0), (FEW, STARVED_AT_ONCE), (MANY, 15)])
def test_a_machine_may_be_too_slow_now_and_then(totals: Totals, claims: int, starved: int) -> None:
    totals.claims, totals.starved = claims, starved
    assert list(missed(totals)) == []


# --- zombies ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "wanted"), [(20.0, 1), (60.4, 1), (119.0, 1), (121.0, 2), (3605.0, 60)])
def test_there_is_to_be_a_zombie_beside_an_heir_in_each_whole_minute(
    totals: Totals, seconds: float, wanted: int
) -> None:
    totals.seconds, totals.contested = seconds, wanted
    assert "zombies_beside_an_heir" not in {goal.goal for goal in missed(totals)}
    totals.contested -= 1
    [goal] = [goal for goal in missed(totals) if goal.goal == "zombies_beside_an_heir"]
    assert (goal.figure, goal.wanted) == (wanted - 1, wanted)


# --- recovery --------------------------------------------------------------------------------


def test_nothing_that_recovered_is_no_quick_recovery(totals: Totals) -> None:
    totals.rounds = []
    [goal] = missed(totals)
    assert (goal.goal, goal.figure, goal.wanted) == ("recoveries", 0, RECOVERIES_A_MINUTE // 2)


def test_who_was_hit_again_is_not_counted(totals: Totals) -> None:
    totals.rounds = [recovered(*[4.0] * 5, again=1)]
    assert list(missed(totals)) == []
    totals.rounds = [recovered(again=RECOVERIES_A_MINUTE)]
    assert [goal.goal for goal in missed(totals)] == ["recoveries", "hit_again"]


def test_a_fifth_of_the_recoveries_may_have_been_hit_again(totals: Totals) -> None:
    """Of all rounds together."""
    totals.rounds = [recovered(*[4.0] * 7), recovered(4.0, again=2)]
    assert list(missed(totals)) == []
    totals.rounds[0].recoveries += recovered(again=1).recoveries
    assert [goal.goal for goal in missed(totals)] == ["hit_again"]


@pytest.mark.parametrize(("start", "allowed"), [(0.0, 4.5), (1.0, 4.5), (1.5, 5.5), (2.0, 6.5), (10.0, 6.5)])
def test_a_slow_start_allows_for_a_slow_recovery_up_to_a_limit(totals: Totals, start: float, allowed: float) -> None:
    totals.rounds = [recovered(*[allowed] * 5, start=start)]
    assert list(missed(totals)) == []
    totals.rounds = [recovered(*[allowed + 0.1] * 5, start=start)]
    assert [(goal.goal, goal.wanted) for goal in missed(totals)] == [("recovery", allowed)]


def test_a_slow_start_allows_nothing_in_other_rounds(totals: Totals) -> None:
    slow, quick = recovered(*[6.0] * 5, start=2.0), recovered(*[4.0] * 95)
    totals.rounds = [slow, quick]
    assert list(missed(totals)) == []
    quick.recoveries += recovered(5.0).recoveries
    assert list(missed(totals)) == [], "one of more than a hundred"
    quick.recoveries += recovered(5.5).recoveries
    [goal] = missed(totals)
    assert (goal.goal, goal.figure, goal.wanted) == ("recovery", 5.0, 4.5)
    assert "2 of 102 took longer" in str(goal)


# --- two releases ----------------------------------------------------------------------------


@pytest.mark.parametrize("direction", [TO_NEW, TO_OLD])
def test_two_releases_have_to_hand_runs_over_in_both_directions(totals: Totals, direction: str) -> None:
    totals.handovers = Counter({TO_NEW: HANDOVERS_A_MINUTE // 2, TO_OLD: HANDOVERS_A_MINUTE // 2})
    totals.old = 1
    assert list(missed(totals)) == []
    totals.handovers[direction] -= 1
    [goal] = missed(totals)
    assert (goal.figure, goal.wanted) == (9, 10)
    assert f"from {direction} code" in str(goal)


def test_beside_the_released_version_recovery_is_no_goal(totals: Totals) -> None:
    totals.handovers = Counter({TO_NEW: HANDOVERS_A_MINUTE // 2, TO_OLD: HANDOVERS_A_MINUTE // 2})
    totals.rounds = [recovered(60.0, again=2)]
    assert len(list(missed(totals))) == 3
    totals.old = 1
    assert list(missed(totals)) == []


def test_where_there_is_one_release_nothing_is_handed_over(totals: Totals) -> None:
    assert not totals.handovers
    assert list(missed(totals)) == []

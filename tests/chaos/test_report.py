"""Which goals a run of chaos has missed, and what its last line says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest

from tests.chaos.evidence import Violation
from tests.chaos.handovers import TO_NEW, TO_OLD
from tests.chaos.recovery import Recovery
from tests.chaos.report import (
    FAULTS_A_MINUTE,
    HANDOVERS_A_MINUTE,
    HITS_A_MINUTE,
    RUNS_A_MINUTE,
    Totals,
    Verdict,
    as_data,
    missed,
    table,
    verdict,
)


@pytest.fixture
def totals() -> Totals:
    """Half a minute that was just good enough."""
    totals = Totals("seed", seconds=30.0, start=1.0, acknowledged=RUNS_A_MINUTE // 2, contested=1)
    totals.faults = Counter(kill=FAULTS_A_MINUTE // 2)
    totals.hits = Counter(kill=HITS_A_MINUTE // 2)
    totals.recoveries = [Recovery("run", "step0", 4.0, 4.0)]
    return totals


def test_what_is_good_enough(totals: Totals) -> None:
    assert list(missed(totals)) == []


def spoil(name: str, value: object) -> Callable[[Totals], None]:
    return lambda totals: setattr(totals, name, value)


@pytest.mark.parametrize(
    ("spoils", "words"),
    [
        (spoil("acknowledged", RUNS_A_MINUTE // 2 - 1), "acknowledged runs in 0.5 minutes"),
        (spoil("faults", Counter(kill=FAULTS_A_MINUTE // 2 - 1)), "29 faults in 0.5 minutes"),
        (spoil("hits", Counter(kill=HITS_A_MINUTE // 2 - 1)), "9 faults that hit a running step"),
        (spoil("contested", 0), "beside an heir"),
        (spoil("recoveries", [Recovery("run", "step0", 5.0, 5.0)]), "recovery took 5.00 s"),
        (spoil("violations", [Violation("lost", "tag", "is gone")]), "1 lost"),
    ],
)
def test_each_goal_that_is_missed_is_told(totals: Totals, spoils: Callable[[Totals], None], words: str) -> None:
    spoils(totals)
    [goal] = missed(totals)
    assert words in goal


def test_only_what_is_wrong_is_the_last_word(totals: Totals) -> None:
    assert verdict(totals) is Verdict.HOLDS
    totals.acknowledged -= 1
    assert verdict(totals) is Verdict.MISSED
    totals.violations = [Violation("lost", "tag", "is gone")]
    assert verdict(totals) is Verdict.WRONG


def test_a_slow_start_allows_for_a_slow_recovery(totals: Totals) -> None:
    totals.recoveries = [Recovery("run", "step0", 6.0, 6.0)]
    totals.start = 2.0
    assert list(missed(totals)) == []


def test_who_was_hit_again_is_seen_and_not_counted(totals: Totals) -> None:
    totals.recoveries.append(Recovery("run", "step0", 60.0, None))
    assert list(missed(totals)) == []
    assert as_data(totals)["recovery"]["max"] == 60.0


@pytest.mark.parametrize("direction", [TO_NEW, TO_OLD])
def test_two_releases_have_to_hand_runs_over_in_both_directions(totals: Totals, direction: str) -> None:
    totals.handovers = Counter({TO_NEW: HANDOVERS_A_MINUTE // 2, TO_OLD: HANDOVERS_A_MINUTE // 2})
    totals.old = 1
    assert list(missed(totals)) == []
    totals.handovers[direction] -= 1
    [goal] = missed(totals)
    assert f"from {direction} code" in goal
    assert f"9 from {direction} code" in table(totals)


def test_where_there_is_one_release_nothing_is_handed_over(totals: Totals) -> None:
    assert not totals.handovers
    assert list(missed(totals)) == []
    assert "code" not in table(totals)


def test_the_last_line_sorts_what_is_wrong(totals: Totals) -> None:
    rules = ["lost", "half", "stale", "revived", "repeated", "atomic", "unfinished", "limit"]
    totals.violations = [Violation(rule, "run", "text") for rule in rules]
    data = json.loads(json.dumps(as_data(totals)))
    assert (data["lost"], data["stale_writes"], data["unexplained_repetitions"], data["unfinished"]) == (2, 2, 2, 1)
    assert data["violations"] == len(rules)
    assert all(f"{rule}: text [run]" in table(totals) for rule in rules)

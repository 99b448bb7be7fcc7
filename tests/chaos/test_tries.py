"""Who tries again, how often and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.evidence import Violation
from tests.chaos.goals import Verdict
from tests.chaos.totals import Totals
from tests.chaos.tries import Earlier, in_tries

TRY_SECONDS = 90.0


class Stage:
    """Each try takes a while, and comes to what is next in line."""

    def __init__(self, *outcomes: Totals) -> None:
        self._outcomes = list(outcomes)
        self._now = 1_000.0
        self.seeds: list[str] = []
        self.told: list[list[Earlier]] = []

    def clock(self) -> float:
        return self._now

    def play(self, seed: str, earlier: list[Earlier]) -> Totals:
        self._now += TRY_SECONDS
        self.seeds.append(seed)
        self.told.append(earlier)
        return self._outcomes[len(self.seeds) - 1]

    def verdict(self, *, tries: int = 3, within: float = 10 * TRY_SECONDS) -> Verdict:
        return in_tries(self.play, "7", tries=tries, within=within, clock=self.clock)


@pytest.fixture
def good(totals: Totals) -> Totals:
    return totals


@pytest.fixture
def poor(totals: Totals) -> Totals:
    return replace(totals, acknowledged=1)


@pytest.fixture
def wrong(totals: Totals) -> Totals:
    return replace(totals, violations=[Violation("lost", "tag", "is gone")])


def test_what_holds_is_played_once(good: Totals) -> None:
    stage = Stage(good)
    assert stage.verdict() is Verdict.HOLDS
    assert (stage.seeds, stage.told) == (["7"], [[]])


def test_what_proves_nothing_is_tried_again_from_another_seed(poor: Totals, good: Totals) -> None:
    stage = Stage(poor, good)
    assert stage.verdict() is Verdict.HOLDS
    assert stage.seeds == ["7", "7.1"]


def test_the_next_try_is_told_what_those_before_it_missed(poor: Totals, good: Totals) -> None:
    stage = Stage(poor, poor, good)
    stage.verdict()
    assert [len(earlier) for earlier in stage.told] == [0, 1, 2]
    assert [one.seed for one in stage.told[2]] == ["7", "7.1"]
    for one in stage.told[2]:
        [missed] = one.missed
        assert (missed.goal, missed.figure, missed.wanted) == ("acknowledged", 1, 1_000)


def test_a_violation_is_the_last_word(wrong: Totals, poor: Totals, good: Totals) -> None:
    stage = Stage(wrong, good)
    assert stage.verdict() is Verdict.WRONG
    assert stage.seeds == ["7"]
    stage = Stage(poor, wrong, good)
    assert stage.verdict() is Verdict.WRONG
    assert stage.seeds == ["7", "7.1"]


@pytest.mark.parametrize("tries", [1, 2, 3])
def test_there_are_so_many_tries_and_no_more(poor: Totals, good: Totals, tries: int) -> None:
    stage = Stage(*[poor] * tries, good)
    assert stage.verdict(tries=tries) is Verdict.MISSED
    assert len(stage.seeds) == tries


@pytest.mark.parametrize(
    ("within", "begun"), [(0.0, 1), (TRY_SECONDS - 1, 1), (TRY_SECONDS + 1, 2), (2 * TRY_SECONDS + 1, 3)]
)
def test_none_begins_when_the_time_for_all_of_them_is_over(
    poor: Totals, good: Totals, within: float, begun: int
) -> None:
    stage = Stage(*[poor] * begun, good)
    assert stage.verdict(tries=9, within=within) is Verdict.MISSED
    assert len(stage.seeds) == begun

"""Who waits for which row, in which order, and when it is asked for again. No database, and the clock is a number."""

from __future__ import annotations

from math import inf
from uuid import UUID

import pytest

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.worker.held import HeldRows
from django_durable.worker.submission import Submission


def of(run: int) -> Submission:
    return Submission(Lease(UUID(int=run), UUID(int=0), inf), Write())


@pytest.fixture
def held() -> HeldRows:
    return HeldRows()


def test_where_nothing_is_held_everything_may_be_tried(held: HeldRows) -> None:
    waiting = [of(1), of(2), of(1)]
    assert held.sort(waiting, 0.0) == waiting
    assert (bool(held), held.next_due) == (False, inf)


def test_what_is_held_comes_back_when_its_time_has_come_before_all_others(held: HeldRows) -> None:
    skipped, other = of(1), of(2)
    held.put(skipped, 10.0)
    assert held.next_due == 10.005
    assert held.sort([other], 10.004) == [other]
    assert held.sort([other], 10.005) == [skipped, other]
    assert (bool(held), held.next_due) == (False, inf)


def test_the_pause_doubles_up_to_the_longest(held: HeldRows) -> None:
    skipped, pauses = of(1), []
    for _ in range(6):
        held.put(skipped, 0.0)
        pauses.append(held.next_due)
        assert held.sort([], held.next_due) == [skipped]
    assert pauses == [0.005, 0.01, 0.02, 0.04, 0.05, 0.05]


def test_a_run_starts_with_the_shortest_pause_again_when_it_was_free_meanwhile(held: HeldRows) -> None:
    for turn in range(3):
        held.put(of(1), turn)
        assert held.next_due == turn + 0.005
        held.sort([], held.next_due)


def test_each_row_has_its_own_time(held: HeldRows) -> None:
    first, second = of(1), of(2)
    held.put(first, 0.0)
    held.put(second, 0.003)
    assert held.sort([], 0.006) == [first]
    assert held.next_due == 0.008
    held.put(first, 0.006)
    assert held.next_due == 0.008
    assert held.sort([], 0.008) == [second]
    assert held.sort([], 1.0) == [first]


def test_writes_of_a_run_whose_row_is_held_line_up_behind_each_other(held: HeldRows) -> None:
    first, second, third, other = of(1), of(1), of(1), of(2)
    held.put(first, 0.0)
    assert held.sort([second, other], 0.001) == [other]
    assert held.sort([third], 0.006) == [first, second, third]
    # The second has not been skipped itself: only who was asks less often.
    held.put(first, 0.006)
    assert held.sort([second, third], 0.007) == []
    assert held.sort([], 0.016) == [first, second, third]

"""The axis of a timeline: to scale where something is done, short where long nothing is."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_durable.admin.axis import Axis, spelled
from django_durable.admin.cells import length
from tests.admin.moments import at


def test_an_axis_without_long_waits_is_to_scale() -> None:
    axis = Axis(at(0), at(100), [(at(0), at(40)), (at(50), at(100))])
    assert [axis.at(at(seconds)) for seconds in (-5, 0, 25, 100, 200)] == [0, 0, 25, 100, 100]
    assert axis.gaps == []
    assert [tick.label for tick in axis.ticks] == ["0", "30 s", "1 min"], "no room for 1 min 30 s"


def test_a_long_wait_is_drawn_short_and_marked() -> None:
    days = 3 * 86_400
    axis = Axis(at(0), at(days + 0.04), [(at(0), at(0.02)), (at(days + 0.02), at(days + 0.04))])
    [gap] = axis.gaps
    assert gap.label == "3 d"
    assert 15 < gap.width < 40
    assert axis.at(at(0.01)) > 15  # what was done is still seen
    labels = [tick.label for tick in axis.ticks]
    assert labels[0] == "0" and "3 d" in labels
    positions = [axis.at(at(seconds)) for seconds in (0, 0.02, 60, days, days + 0.02, days + 0.04)]
    assert positions == sorted(positions) and len(set(positions)) == 6


def test_idle_times_are_parted_by_what_happens_in_them() -> None:
    work = [(at(0), at(0.1)), (at(9_000), at(9_000.1))]
    axis = Axis(at(0), at(9_000.1), work, [at(0), at(3_000), at(9_000.1)])
    assert [gap.label for gap in axis.gaps] == ["50 min", "1 h 40 min"]
    assert abs(axis.gaps[0].width - axis.gaps[1].width) < 0.01


@pytest.mark.parametrize("steps", [2, 5, 20])
@pytest.mark.parametrize("seconds", [0.0001, 0.05, 60])
def test_idle_times_never_take_more_than_a_quarter(steps: int, seconds: float) -> None:
    work = [(at(n * 3_600), at(n * 3_600 + seconds)) for n in range(steps)]
    axis = Axis(work[0][0], work[-1][1], work)
    assert axis.gaps
    assert sum(gap.width for gap in axis.gaps) <= 25.1


def test_an_axis_of_moments_is_to_scale() -> None:
    axis = Axis(at(0), at(7_200), [(at(0), at(0)), (at(3_600), at(3_600)), (at(7_200), at(7_200))])
    assert (axis.gaps, axis.at(at(3_600))) == ([], 50)


@pytest.mark.parametrize("work", [[], [(at(0), at(0))]])
def test_an_axis_of_nothing_is_an_axis(work: list[tuple[datetime, datetime]]) -> None:
    axis = Axis(at(0), at(0), work)
    assert 0 <= axis.at(at(0)) <= 100
    assert axis.ticks[0].label == "0"


MOMENT = st.one_of(st.sampled_from([-10, 0, 10, 50, 3_600, 86_400]), st.floats(-100, 90_000))
SPAN = st.tuples(MOMENT, MOMENT)


@given(st.lists(SPAN), st.lists(MOMENT), SPAN)
@example(work=[(50, 0), (0, 10), (50, 91)], edges=[], around=(0, 91))
@example(work=[(0, 1), (3_600, 50)], edges=[], around=(0, 50))
def test_whatever_clocks_say_gaps_lie_on_the_axis_one_after_the_other(
    work: list[tuple[float, float]], edges: list[float], around: tuple[float, float]
) -> None:
    """Those of two machines may differ, and one that is set back has things end before they begin."""
    axis = Axis(at(around[0]), at(around[1]), [(at(a), at(b)) for a, b in work], [at(edge) for edge in edges])
    moments = sorted([*edges, *around, *(moment for span in work for moment in span)])
    for drawn in ([gap.x for gap in axis.gaps], [axis.at(at(moment)) for moment in moments]):
        assert drawn == sorted(drawn)
        assert all(-0.001 <= x <= 100.001 for x in drawn)
    assert all(gap.width >= 0 and gap.x + gap.width <= 100.001 for gap in axis.gaps)
    assert all(one.x + one.width <= other.x + 0.001 for one, other in pairwise(axis.gaps))


def test_ticks_have_room_for_their_labels() -> None:
    days = [at(n * 86_400) for n in range(12)]
    axis = Axis(at(0), days[-1] + timedelta(seconds=1), [(day, day + timedelta(seconds=1)) for day in days])
    assert len(axis.gaps) == 11
    assert all(one.right <= other.left for one, other in zip(axis.ticks, axis.ticks[1:], strict=False))
    assert all(tick.left >= 0 and tick.right <= 100 for tick in axis.ticks)


def strays(axis: Axis) -> list[str]:
    """Labels that count on ("+50 ms") from the end of a gap at which none stands, or after which another gap ends."""
    ends = [gap.x + gap.width for gap in axis.gaps]
    found, base = [], 0.0
    for tick in axis.ticks:
        if not tick.label.startswith("+"):
            base = tick.x
        elif [end for end in ends if base + 0.01 < end <= tick.x + 0.01]:
            found.append(tick.label)
    return found


@pytest.mark.parametrize("steps", [2, 3, 5, 9, 20])
@pytest.mark.parametrize("share", [0.02, 0.3, 1, 1.5])
def test_a_label_counts_on_from_the_one_before_it_and_the_last_gap_has_one(steps: int, share: float) -> None:
    """Whatever has room: the steps last ever longer, or ever shorter."""
    work, start = [], 0.0
    for number in range(steps):
        seconds = 0.1 * share**number
        work.append((at(start), at(start + seconds)))
        start += seconds + 36_000 + 60 * number
    axis = Axis(at(0), work[-1][1], work)
    assert len(axis.gaps) == steps - 1
    assert strays(axis) == []
    after = axis.gaps[-1].x + axis.gaps[-1].width
    [last] = [tick.label for tick in axis.ticks if abs(tick.x - after) < 0.01]
    assert not last.startswith("+")
    assert all(one.right <= other.left for one, other in zip(axis.ticks, axis.ticks[1:], strict=False))


@pytest.mark.parametrize(
    ("seconds", "on_the_axis", "in_a_row"),
    [
        (0.9996, "1 s", "1.0 s"),
        (59.94, "59.9 s", "59.9 s"),
        (59.97, "1 min", "1 min 0 s"),
        (88.6, "1 min 29 s", "1 min 29 s"),
        (3_599.7, "1 h", "1 h 0 min"),
    ],
)
def test_what_an_axis_and_a_row_say_of_a_length_is_the_same(seconds: float, on_the_axis: str, in_a_row: str) -> None:
    assert (spelled(seconds), length(seconds)) == (on_the_axis, in_a_row)


def test_lengths_are_spelled_in_two_units() -> None:
    lengths = {0.02: "20 ms", 1.5: "1.5 s", 60: "1 min", 3_660: "1 h 1 min", 86_400: "1 d", 86_460: "1 d"}
    assert {seconds: spelled(seconds) for seconds in lengths} == lengths

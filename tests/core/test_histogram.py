"""Percentiles that are told from counts, against those of the sorted list."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable.core.histogram import FIRST, bucket_of, percentile, seconds_of

DAY = 86_400.0
SECONDS = st.floats(FIRST, 365 * DAY)


def counted(seconds: list[float]) -> Counter[int]:
    return Counter(map(bucket_of, seconds))


@given(seconds=st.lists(SECONDS, min_size=1), share=st.floats(0, 1))
def test_a_percentile_is_right_within_a_tenth(seconds: list[float], share: float) -> None:
    exact = sorted(seconds)[max(1, ceil(share * len(seconds))) - 1]
    assert percentile(counted(seconds), share) == pytest.approx(exact, rel=0.1)


@given(first=st.lists(SECONDS, min_size=1), second=st.lists(SECONDS, min_size=1), share=st.floats(0, 1))
def test_counts_can_be_added(first: list[float], second: list[float], share: float) -> None:
    assert percentile(counted(first) + counted(second), share) == percentile(counted(first + second), share)


@given(shorter=SECONDS, longer=SECONDS)
def test_what_takes_longer_is_in_no_earlier_bucket(shorter: float, longer: float) -> None:
    shorter, longer = sorted((shorter, longer))
    assert 0 <= bucket_of(shorter) <= bucket_of(longer)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, FIRST / 2, FIRST])
def test_what_takes_no_time_is_in_the_first(seconds: float) -> None:
    assert bucket_of(seconds) == 0


def test_a_year_fits_a_few_buckets() -> None:
    assert bucket_of(365 * DAY) < 140
    assert seconds_of(bucket_of(DAY)) == pytest.approx(DAY, rel=0.1)


def test_nothing_has_no_percentile() -> None:
    assert percentile({}, 0.5) is None

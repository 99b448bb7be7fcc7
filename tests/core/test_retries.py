"""Back-off, its bounds, and which errors are tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_durable.core.retries import LONGEST_DELAY, Retry, retry_delay
from django_durable.exceptions import NonRetriableError, RetryLater


def middle() -> float:
    return 0.5


@pytest.mark.behaviour("STEP-06b")
def test_delays_grow_to_the_maximum() -> None:
    policy = Retry(initial=1, factor=3, maximum=20)
    assert [policy.delay(attempt, middle) for attempt in (1, 2, 3, 4, 5)] == [1, 3, 9, 20, 20]


@pytest.mark.behaviour("STEP-06c")
def test_jitter_is_symmetric() -> None:
    policy = Retry(initial=10, jitter=0.2)
    assert policy.delay(1, lambda: 0.0) == pytest.approx(8)
    assert policy.delay(1, lambda: 1.0) == pytest.approx(12)
    assert Retry(initial=10, jitter=0).delay(1, lambda: 0.0) == 10


@pytest.mark.behaviour("STEP-06c")
@given(
    initial=st.floats(0, 100),
    factor=st.floats(1, 1e300),
    above=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
    attempt=st.one_of(st.integers(1, 50), st.just(10**6), st.just(10**400)),
    draw=st.floats(0, 1),
)
def test_delay_stays_in_its_bounds(
    initial: float, factor: float, above: float, jitter: float, attempt: int, draw: float
) -> None:
    policy = Retry(initial=initial, factor=factor, maximum=initial + above, jitter=jitter)
    delay = policy.delay(attempt, lambda: draw)
    assert type(delay) is float
    assert 0 <= delay <= policy.maximum * (1 + jitter)


def test_huge_attempts() -> None:
    assert Retry(maximum=60).delay(10**400, middle) == 60
    assert Retry(initial=0).delay(10**400, middle) == 0
    assert Retry(factor=10**400).delay(2, middle) == 60


@pytest.mark.parametrize(
    ("policy", "error", "attempt", "allowed"),
    [
        (Retry(max_attempts=3), ValueError(), 2, True),
        (Retry(max_attempts=3), ValueError(), 3, False),
        (Retry(max_attempts=1), ValueError(), 1, False),
        (Retry(), NonRetriableError(), 1, False),
        (Retry(retry_on=NonRetriableError), NonRetriableError(), 1, False),
        (Retry(retry_on=OSError), ConnectionError(), 1, True),
        (Retry(retry_on=OSError), ValueError(), 1, False),
        (Retry(retry_on=(KeyError, OSError)), TimeoutError(), 1, True),
        (Retry(retry_on=()), ValueError(), 1, False),
        (Retry(give_up_on=LookupError), KeyError(), 1, False),
        (Retry(give_up_on=(KeyError,)), LookupError(), 1, True),
        (Retry(retry_on=OSError, give_up_on=TimeoutError), TimeoutError(), 1, False),
        (Retry(retry_on=OSError), RetryLater(after=1), 1, True),
        (Retry(), RetryLater(after=1), 3, False),
        (Retry(give_up_on=RetryLater), RetryLater(after=1), 1, False),
        (Retry(), SystemExit(), 1, True),
    ],
)
def test_allows(policy: Retry, error: BaseException, attempt: int, allowed: bool) -> None:
    assert policy.allows(error, attempt) is allowed


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        (5, 5.0),
        (0.25, 0.25),
        (timedelta(minutes=2), 120.0),
        (-1, 0.0),
        (timedelta(days=-1), 0.0),
        (10**400, LONGEST_DELAY),
        (-(10**400), 0.0),
        (timedelta.max, LONGEST_DELAY),
        ("soon", 7.0),
        (None, 7.0),
        (True, 7.0),
        (float("nan"), 7.0),
        (float("inf"), 7.0),
    ],
)
def test_retry_later_names_its_own_delay(after: Any, seconds: float) -> None:
    assert retry_delay(Retry(initial=7), RetryLater(after=after), 1, middle) == seconds


def test_other_errors_use_the_policy() -> None:
    assert retry_delay(Retry(initial=7), ValueError(), 2, middle) == 14


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"max_attempts": 0}, ValueError, "at least 1, not 0"),
        ({"max_attempts": True}, TypeError, "max_attempts must be an int"),
        ({"max_attempts": 2.5}, TypeError, "max_attempts must be an int, not 2.5"),
        ({"max_attempts": None}, TypeError, "max_attempts"),
        ({"initial": -1}, ValueError, "initial must be finite and from 0"),
        ({"initial": "1"}, TypeError, "initial must be a number of seconds, not '1'"),
        ({"maximum": timedelta(minutes=1)}, TypeError, "maximum must be a number of seconds, not datetime"),
        ({"initial": float("nan")}, ValueError, "initial"),
        ({"initial": 120}, ValueError, r"initial \(120 s\) is above maximum \(60 s\)"),
        ({"factor": 0.5}, ValueError, "factor must be finite and from 1"),
        ({"factor": float("inf")}, ValueError, "factor"),
        ({"maximum": float("inf")}, ValueError, "maximum"),
        ({"maximum": 1e12}, ValueError, "maximum"),
        ({"jitter": 1.5}, ValueError, "jitter must be finite and from 0 to 1"),
        ({"jitter": None}, TypeError, "jitter must be a number, not None"),
        ({"retry_on": ValueError()}, TypeError, "retry_on must be an exception class"),
        ({"retry_on": "ValueError"}, TypeError, "retry_on"),
        ({"retry_on": [ValueError]}, TypeError, "retry_on"),
        ({"give_up_on": (ValueError, int)}, TypeError, "give_up_on"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Retry(**options)


@pytest.mark.behaviour("STEP-06a")
def test_policies_are_values() -> None:
    assert Retry() == Retry(3, 1.0, 2.0, 60.0, 0.1, None, None)
    assert hash(Retry(retry_on=(OSError,))) == hash(Retry(retry_on=(OSError,)))
    with pytest.raises(AttributeError):
        Retry().max_attempts = 5  # type: ignore[misc]

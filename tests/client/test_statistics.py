"""What charts and rates are read from, with a clock that moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

import pytest

from django_durable.client.statistics import Bucket, Counts, by_queue, by_workflow, series
from django_durable.core import clock
from django_durable.core.histogram import bucket_of
from django_durable.store.database import Database
from django_durable.store.tallying import Counted, add

pytestmark = [pytest.mark.django_db, pytest.mark.contract]

NOW = datetime(2026, 3, 1, 12, 7, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The time; a test may set the one in it."""
    moment = [NOW]
    monkeypatch.setattr(clock, "utcnow", lambda: moment[0])
    return moment


def count(
    event: str,
    times: int = 1,
    *,
    ago: timedelta = timedelta(0),
    workflow: str = "ship",
    queue: str = "mail",
    **more: Any,
) -> None:
    minute = (NOW - ago).replace(second=0, microsecond=0)
    add(Database(), {Counted(minute, workflow, queue, event, **more): times})


def test_a_series_has_every_bucket_and_begins_with_the_oldest() -> None:
    count("started", 5, ago=59 * MINUTE)
    count("succeeded", 4, ago=2 * MINUTE, bucket=10)
    count("failed", 3, ago=2 * MINUTE, workflow="bill")
    count("cancelled", 2, queue="slow")
    found = series(HOUR, 60)
    first = datetime(2026, 3, 1, 11, 8, tzinfo=UTC)
    assert [bucket.at for bucket in found] == [first + number * MINUTE for number in range(60)]
    assert {index: bucket for index, bucket in enumerate(found) if bucket != Bucket(bucket.at)} == {
        0: Bucket(first, started=5),
        57: Bucket(first + 57 * MINUTE, succeeded=4, failed=3),
        59: Bucket(first + 59 * MINUTE, cancelled=2),
    }


def test_what_is_older_is_in_no_bucket() -> None:
    count("started", ago=60 * MINUTE)
    assert sum(bucket.started for bucket in series(HOUR, 60)) == 0


def test_buckets_of_a_quarter_of_an_hour_stand_still_until_it_is_over(now: list[datetime]) -> None:
    count("started", ago=7 * MINUTE)
    found = series(DAY, 96)
    assert found[-1] == Bucket(datetime(2026, 3, 1, 12, 0, tzinfo=UTC), started=1)
    now[0] += 7 * MINUTE
    assert series(DAY, 96) == found
    now[0] += MINUTE
    assert series(DAY, 96)[:-1] == found[1:]


def test_a_minute_that_the_clock_here_has_not_reached_is_in_the_last_bucket() -> None:
    count("started", ago=-2 * MINUTE)
    assert series(HOUR, 60)[-1].started == 1


def test_nothing_is_known_of_less_than_a_minute() -> None:
    with pytest.raises(ValueError, match="120 buckets of 1:00:00 are shorter than a minute"):
        series(HOUR, 120)


def test_counts_by_queue() -> None:
    count("started", 2)
    count("started", 1, workflow="bill")
    count("succeeded", 1, ago=HOUR)
    count("failed", 4, queue="default")
    count("failed", 8, queue="old", ago=HOUR + MINUTE)
    assert by_queue(HOUR) == {"default": Counts(failed=4), "mail": Counts(started=3, succeeded=1)}
    assert list(by_queue(HOUR)) == ["default", "mail"]


def test_counts_by_workflow() -> None:
    count("started", 2)
    count("started", 1, queue="slow")
    count("failed", 3, workflow="bill", bucket=bucket_of(10.0))
    count("failed", 3, workflow="bill", step="pay")
    count("cancelled", 4, workflow="old", ago=HOUR + MINUTE)
    found = by_workflow(HOUR)
    assert list(found) == ["bill", "ship"]
    assert (found["ship"].started, found["ship"].p50, found["ship"].failing_step) == (3, None, None)
    assert (found["bill"].failed, found["bill"].failing_step) == (3, ("pay", 3))
    assert found["bill"].p95 == pytest.approx(10, rel=0.1)


def test_what_was_counted_under_several_names_is_one() -> None:
    for name, failures in (("bill", {"pay": 1, "pack": 3}), ("invoice", {"pay": 4, "pack": 1})):
        count("started", 2, workflow=name)
        count("succeeded", 9 if name == "bill" else 1, workflow=name, bucket=30 if name == "bill" else 60)
        for step, times in failures.items():
            count("failed", times, workflow=name, step=step)
    apart, together = by_workflow(HOUR), by_workflow(HOUR, {"bill": "bill", "invoice": "bill"})
    assert list(apart) == ["bill", "invoice"] and list(together) == ["bill"]
    assert (apart["bill"].failing_step, apart["invoice"].failing_step) == (("pack", 3), ("pay", 4))
    one = together["bill"]
    assert (one.started, one.succeeded, one.failing_step) == (4, 10, ("pay", 5))
    assert (one.p50, one.p95) == (apart["bill"].p50, apart["invoice"].p95) and one.p50 != one.p95
    count("failed", 2, workflow="invoice")
    assert by_workflow(HOUR, {"bill": "bill", "invoice": "bill"})["bill"].failed_as == {"invoice"}


def test_the_step_that_fails_most_often_is_told() -> None:
    count("failed", 9)
    for step, times in (("pay", 2), ("ship", 3), ("pack", 3), ("", 8)):
        count("failed", times, step=step)
    # Of two that fail as often the first by name; "" is all those that were too many to be told.
    assert by_workflow(HOUR)["ship"].failing_step == ("pack", 3)


def test_durations_and_steps_reach_back_from_the_beginning_of_ten_minutes() -> None:
    count("failed", bucket=30)
    # Of 11:05; the hour reaches back to 11:07.
    count("failed", ago=62 * MINUTE, step="pay")
    count("failed", ago=62 * MINUTE, workflow="bill", bucket=30)
    count("failed", ago=68 * MINUTE, step="older")
    found = by_workflow(HOUR)
    assert list(found) == ["ship"]
    assert (found["ship"].failed, found["ship"].failing_step) == (1, ("pay", 1))


def test_percentiles_are_those_of_the_sorted_list_within_a_tenth() -> None:
    chance = random.Random(7)
    seconds = [chance.lognormvariate(0, 3) for _ in range(500)]
    for index, one in enumerate(seconds):
        event, queue = ("failed", "slow") if index % 5 == 0 else ("succeeded", "mail")
        count(event, ago=(index % 50) * MINUTE, queue=queue, bucket=bucket_of(max(one, 0.001)))
    found = by_workflow(HOUR)["ship"]
    for share, told in ((0.5, found.p50), (0.95, found.p95)):
        assert told == pytest.approx(sorted(seconds)[ceil(share * 500) - 1], rel=0.1)


def test_nothing_was_counted() -> None:
    assert (by_queue(DAY), by_workflow(DAY)) == ({}, {})
    assert {bucket.started for bucket in series(DAY, 96)} == {0}


@pytest.mark.parametrize("ask", [lambda: series(DAY, 96), lambda: by_queue(DAY), lambda: by_workflow(DAY)])
def test_a_question_is_one_query(ask: Callable[[], object], django_assert_num_queries: Any) -> None:
    count("failed", bucket=1)
    count("failed", step="pay", workflow="bill")
    with django_assert_num_queries(1):
        ask()

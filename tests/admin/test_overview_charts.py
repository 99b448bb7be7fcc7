"""The overview's charts: what happened, drawn, named and in a table."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from django_durable.admin import overview
from django_durable.admin.chart import chart
from django_durable.client.statistics import Bucket, series
from tests.admin.overviews import CHARTS, HOUR, MINUTE, look, tally


def paths(client: Client) -> list[dict[str, str]]:
    page = client.get(CHARTS).content.decode()
    return [dict(re.findall(r'class="durable-chart-(\w+)" d="([^"]*)"', svg)) for svg in page.split("<svg")[1:]]


def test_of_nothing_there_is_a_chart_that_says_so(boss: Client) -> None:
    text = look(boss, CHARTS)
    assert text.count("Nothing started and nothing ended.") == 4  # in words, and in the picture's description
    assert "The figures" not in text
    for drawn in paths(boss):
        assert {name: path for name, path in drawn.items() if name != "grid"} == dict.fromkeys(
            ("failed", "cancelled", "succeeded", "started"), ""
        )


def test_what_happened_is_drawn_named_and_in_a_table(boss: Client) -> None:
    tally(started=9, succeeded=6, failed=2, cancelled=1)
    text = look(boss, CHARTS)
    assert text.count("9 started, 9 ended, of which 2 failed.") == 4
    for drawn in paths(boss):
        assert all(drawn.values())
        assert drawn["failed"].count("M") == drawn["succeeded"].count("M") == 1
    page = boss.get(CHARTS).content.decode()
    assert 'role="img" aria-labelledby="durable-hour-title durable-hour-summary"' in page
    assert '<title id="durable-hour-title">' in page
    assert '<desc id="durable-hour-summary">' in page
    [row] = re.findall(r"<tr><th.*?</tr>", page.split("durable-day")[0], re.DOTALL)
    assert re.findall(r'number">(.*?)<', row) == ["9", "6", "2", "1"]


def test_both_charts_are_drawn_of_the_same_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 3, 1, 12, 7, 30, tzinfo=UTC)
    monkeypatch.setattr("django_durable.client.statistics.clock.utcnow", lambda: at)
    for ago, count in {-1: 1, 0: 2, 7: 4, 8: 8, 59: 16, 60: 32, 1_432: 64, 1_433: 128, 1_440: 256}.items():
        tally(minute=at.replace(second=0) - ago * MINUTE, started=count, failed=1)
    hour, day = overview.last_day()
    assert hour == series(HOUR, 60)
    assert day == series(24 * HOUR, 96)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def buckets(*counts: dict[str, int]) -> list[Bucket]:
    return [Bucket(NOON + place * MINUTE, **each) for place, each in enumerate(counts)]


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, ["1", "", "0"]),
        (1, ["1", "", "0"]),
        (2, ["2", "1", "0"]),
        (3, ["4", "2", "0"]),
        (9, ["10", "5", "0"]),
        (10, ["10", "5", "0"]),
        (41, ["60", "30", "0"]),
        (999, ["1k", "500", "0"]),
        (1_500, ["2k", "1k", "0"]),
        (7_654_321, ["8M", "4M", "0"]),
        (10**12 - 1, ["1T", "500G", "0"]),
        (2**63, ["1e+07T", "5e+06T", "0"]),
    ],
)
def test_the_axis_ends_at_a_round_number(most: int, ticks: list[str]) -> None:
    assert chart("x", "X", buckets({"started": most}, {})).ticks == ticks


def test_no_bar_leaves_the_picture_and_none_is_too_small_to_be_seen() -> None:
    drawn = chart("x", "X", buckets({"succeeded": 10**9, "failed": 1}, {"cancelled": 1}, {"started": 10**9})).svg
    drawn = " ".join(re.findall(r' d="(.*?)"', drawn))
    numbers = [float(each) for each in re.findall(r"[VM ](\d+\.?\d*)", drawn)]
    assert min(numbers) >= 0
    assert max(numbers) <= 1_000
    heights = [100 - float(top) for top in re.findall(r"V(\d+\.\d)h", drawn)]
    assert min(heights) >= 1


def test_each_bar_stands_on_the_one_below_and_all_are_as_high_as_the_axis_says() -> None:
    happened: list[dict[str, int]] = [
        {"started": 4, "succeeded": 2, "failed": 1, "cancelled": 1},
        {"succeeded": 3, "failed": 1},
        {"started": 1},
        {"started": 2, "cancelled": 2},
    ]
    made = chart("x", "X", buckets(*happened))
    drawn = dict(re.findall(r'class="durable-chart-(\w+)" d="(.*?)"', made.svg))
    assert made.ticks == ["4", "2", "0"]
    assert drawn == {
        "grid": "M0 0H1000M0 50H1000M0 100H1000",
        "failed": "M25.0 100.0h200.0V75.0h-200.0zM275.0 100.0h200.0V75.0h-200.0z",
        "cancelled": "M25.0 75.0h200.0V50.0h-200.0zM775.0 100.0h200.0V50.0h-200.0z",
        "succeeded": "M25.0 50.0h200.0V0.0h-200.0zM275.0 75.0h200.0V0.0h-200.0z",
        "started": "M0 100V0.0H250.0V100.0H500.0V75.0H750.0V50.0H1000.0",
    }
    assert made.times == ["12:00", "12:01", "12:02", "12:03", "12:04"]


def test_times_of_the_day_are_those_of_the_site(settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    assert chart("x", "X", buckets({}, {"started": 1}, {}, {})).times[0] == "17:30"

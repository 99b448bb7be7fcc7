"""Cron and the oracle agree where clocks are changed. ``make oracle`` asks for every triple, this for some."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from django_durable.core.schedules.cron import fires_between, latest_fire
from tests.schedules import compare, triples
from tests.schedules.oracle import MINUTE, SECOND, Rule, changes, fires, walk
from tests.schedules.triples import EXPRESSIONS, ZONES, Triple, difference, sample

COUNT, SEED = 2_000, 20_240_331
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@cache
def sampled() -> dict[str, list[Triple]]:
    by_zone = defaultdict(list)
    for triple in sample(COUNT, SEED):
        by_zone[triple.zone].append(triple)
    return by_zone


@pytest.mark.parametrize("zone", ZONES)
def test_around_changes_of_the_clocks(zone: str) -> None:
    assert [problem for problem in map(difference, sampled()[zone]) if problem] == []


def test_the_sample_is_what_it_says() -> None:
    assert len(ZONES) == 30 and len(set(EXPRESSIONS)) == len(EXPRESSIONS) == 200
    assert sum(map(len, sampled().values())) == COUNT
    assert len({triple.expression for some in sampled().values() for triple in some}) == 200


def test_the_latest_instant() -> None:
    for triple in sample(100, SEED + 1):
        start, end, tick = triples.window(rule := Rule(triple.expression), triple.change)
        expected = fires(rule, list(walk(ZoneInfo(triple.zone), start, end, tick)))
        for after in triples.probes(triple, triple.change, start, end):
            found = latest_fire(triple.expression, triple.zone, start, after)
            assert found == max((fire for fire in expected if fire <= after), default=None), (str(triple), after)


# --- what those ten years do not have --------------------------------------------------------

ODD = [
    ("Africa/Monrovia", datetime(1972, 1, 7, tzinfo=UTC)),  # by 44 minutes and 30 seconds
    ("Asia/Gaza", datetime(2040, 10, 20, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2090, 10, 29, tzinfo=UTC)),  # past the tables, by the rule at their end
]


@pytest.mark.parametrize(("zone", "day"), ODD, ids=[zone for zone, _ in ODD])
@pytest.mark.parametrize(
    "expression", ["* * * * * */13", "0 * * * * 30", "59 1,2,3 * * * 58", "30 0-3 * * * 0", "0 2 * * * *"]
)
def test_odd_changes(zone: str, day: datetime, expression: str) -> None:
    (change,) = changes(ZoneInfo(zone), day - 2 * DAY, day + 2 * DAY)
    start, end = change - 75 * MINUTE, change + 75 * MINUTE
    expected = fires(Rule(expression), list(walk(ZoneInfo(zone), start, end, SECOND)))
    assert fires_between(expression, zone, start, end, len(expected) + 1) == expected


# --- the oracle and the comparison themselves ------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "zone", "start", "hours", "expected"),
    [
        # A gap: from 2:00 to 3:00, at 7:00 UTC.
        ("30 2 * * *", "America/New_York", "2024-03-10T00:00", 24, "10T07:00"),
        ("5,30 2 * * *", "America/New_York", "2024-03-10T00:00", 24, "10T07:00"),
        ("30 */2 * * *", "America/New_York", "2024-03-10T05:00", 4, "10T05:30 10T08:30"),
        # A repeated hour: 1:30 is at 5:30 and at 6:30 UTC.
        ("30 1 * * *", "America/New_York", "2024-11-03T00:00", 24, "03T05:30"),
        ("30 * * * *", "America/New_York", "2024-11-03T04:00", 4, "03T04:30 03T05:30 03T06:30 03T07:30"),
        # The 30th of December was left out: what it had becomes one fire, at midnight of the 31st.
        ("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00", 24, "29T22:00 30T10:00"),
        ("0 0-23 30 12 *", "Pacific/Apia", "2011-12-29T12:00", 24, "30T10:00"),
        # Either of two fields of days is enough, and a star is no field.
        ("0 0 13 * sun", "UTC", "2024-07-12T12:00", 48, "13T00:00 14T00:00"),
        ("0 0 * * sun", "UTC", "2024-07-12T12:00", 48, "14T00:00"),
        # The 15th of June 2024 was a Saturday, the 16th the third Sunday, the 30th the last one.
        ("0 0 15W * *", "UTC", "2024-06-12T12:00", 96, "14T00:00"),
        ("0 0 * * sun#3", "UTC", "2024-06-08T12:00", 240, "16T00:00"),
        ("0 0 * * L7", "UTC", "2024-06-15T12:00", 480, "30T00:00"),
        ("0 0 L * *", "UTC", "2024-06-28T12:00", 96, "30T00:00"),
    ],
)
def test_the_oracle_on_days_told_by_hand(expression: str, zone: str, start: str, hours: int, expected: str) -> None:
    began = datetime.fromisoformat(start).replace(tzinfo=UTC)
    found = fires(Rule(expression), list(walk(ZoneInfo(zone), began, began + hours * HOUR, MINUTE)))
    assert " ".join(f"{fire:%dT%H:%M}" for fire in found) == expected


BERLIN = Triple("Europe/Berlin", datetime(2015, 3, 29, 1, tzinfo=UTC), "30 2 * * *")


def test_a_wrong_instant_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert difference(BERLIN) is None
    told = "Europe/Berlin 2015-03-29T01:00:00Z '30 2 * * *': "
    monkeypatch.setattr(triples, "fires_between", lambda *args: fires_between(*args)[:1])
    assert difference(BERLIN) == told + "does not fire at 2015-03-29T01:00:00Z"
    monkeypatch.setattr(triples, "fires_between", lambda *args: [*fires_between(*args), BERLIN.change + DAY])
    assert difference(BERLIN) == told + "fires at 2015-03-30T01:00:00Z"
    monkeypatch.setattr(triples, "fires_between", lambda *args: 1 / 0)
    assert difference(BERLIN) == told + "ZeroDivisionError: division by zero"


def test_a_wrong_answer_in_between_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triples, "next_fire", lambda *args: BERLIN.change + HOUR)
    assert "after 2015-03-29T00:59:59+00:00 comes 2015-03-29T02:00:00+00:00, not 2015-03-29 01:00" in str(
        difference(BERLIN)
    )


def test_every_triple_is_compared_once_whatever_the_share() -> None:
    shares = [list(compare.expressions_for(number, 7)) for number in range(7)]
    assert sorted(expression for share in shares for expression in share) == sorted(EXPRESSIONS)
    assert list(compare.expressions_for(3, 1)) == EXPRESSIONS


def test_make_oracle(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["--every", "4000", "--processes", "1"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("30 zones, ") and first.endswith(" 200 expressions: 25 triples on 1 processes")
    assert last.startswith("oracle: 25 triples in ") and last.endswith("all agree")


def test_make_oracle_fails_with_what_differs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "compare", lambda *args: [f"triple {number:02}" for number in range(50)])
    assert compare.main(["--every", "4000", "--processes", "1"]) == 1
    *_, listed, last = capsys.readouterr().out.splitlines()
    assert listed == "triple 19" and last.endswith("50 DIFFER")

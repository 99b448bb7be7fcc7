"""When a soak is good enough, and what its last line says."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak.databases import RUNS
from tests.soak.judging import rules
from tests.soak.load import Said
from tests.soak.measures import Kind, Measure, Sample
from tests.soak.plan import Plan
from tests.soak.report import LATE_MOST, Result, as_data, missed, table, write_csv

FINISHED, RSS = Measure(Kind.FINISHED, RUNS), Measure(Kind.RSS, "worker 1")
OTHERS = {Measure(kind, "all"): 10.0 for kind in Kind if kind not in (Kind.FINISHED, Kind.RSS)}
"""What a soak reads besides, and as it should be: no more at the end than at the beginning, and a heartbeat in time."""


def samples(plan: Plan, rate: float = 70.0, memory: Callable[[float], float] = lambda at: 90e6) -> list[Sample]:
    moments = [plan.interval * number for number in range(1, plan.samples + 1)]
    return [Sample(at, {FINISHED: rate, RSS: memory(at), **OTHERS}) for at in moments]


@pytest.fixture
def result() -> Result:
    """An hour that was just as it should be."""
    plan = Plan(3600)
    result = Result(plan, "seed", capacity=100.0, samples=samples(plan), said=Said(started=252_000, late=0.2))
    result.judge()
    return result


def test_what_is_good_enough(result: Result) -> None:
    assert list(missed(result)) == []
    data = json.loads(json.dumps(as_data(result)))
    assert (data["ok"], data["capacity"], data["rate"], data["finished_rate"]) == (True, 100.0, 70.0, 70.0)
    assert {name.partition(": ")[2] for name in data["series"]} == set(rules(result.rate))
    memory = {"first": 90e6, "last": 90e6, "growth": 0.0, "allowed": 99e6, "flat": True}
    assert data["series"]["worker 1: rss"] == memory
    assert "flat  worker 1: rss" in table(result)


def slow(result: Result) -> None:
    result.samples = samples(result.plan, rate=66.0)


def late(result: Result) -> None:
    result.said = Said(252_000, LATE_MOST + 1)


def stumbled(result: Result) -> None:
    result.said = Said(stumbled="the client stumbled")


def failing(result: Result) -> None:
    result.failed = 1


def violated(result: Result) -> None:
    result.wrong = ["durable_check: 1 violation found."]


def leaking(result: Result) -> None:
    result.samples = samples(result.plan, memory=lambda at: 90e6 * (1 + 0.3 * at / 3600))
    result.judge()


def silent(result: Result) -> None:
    heartbeat = Measure(Kind.HEARTBEAT, "all")
    values = {**result.samples[200].values, heartbeat: 100.0}
    result.samples[200] = Sample(result.samples[200].at, values)
    result.judge()


def half_read(result: Result) -> None:
    """As nobody looked at PostgreSQL's sessions, and no run came to its end."""
    unread = {Kind.CONNECTIONS, Kind.P50, Kind.P99}
    result.samples = [
        Sample(one.at, {measure: value for measure, value in one.values.items() if measure.kind not in unread})
        for one in result.samples
    ]
    result.judge()


def never_judged(result: Result) -> None:
    result.verdicts = []


def short(result: Result) -> None:
    del result.samples[-1]
    result.verdicts = []
    result.judge()
    assert not result.verdicts


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (slow, "66.0 runs a second were finished, of 70.0"),
        (late, "the client was 6.0 s late"),
        (stumbled, "the client stumbled"),
        (failing, "1 runs failed"),
        (violated, "1 violation found"),
        (leaking, "worker 1: rss has grown: "),
        (silent, "all: oldest heartbeat has grown: 10.00 s -> 100.00 s"),
        (half_read, "never read: connections, latency p50, latency p99"),
        (never_judged, "never read: connections, dead rows, file descriptors"),
        (short, "359 samples of 360"),
    ],
)
def test_each_reason_why_it_is_not_is_told(result: Result, spoil: Callable[[Result], None], words: str) -> None:
    spoil(result)
    [goal] = missed(result)
    assert words in goal
    assert as_data(result)["ok"] is False


def test_the_warm_up_is_no_part_of_the_rate(result: Result) -> None:
    result.samples = [
        Sample(sample.at, {**sample.values, FINISHED: 0.0 if sample.at < result.plan.warm_up else 70.0})
        for sample in result.samples
    ]
    assert result.finished_rate == 70.0


def test_every_sample_is_a_line(result: Result, tmp_path: Path) -> None:
    two = [Sample(one.at, {FINISHED: one.values[FINISHED], RSS: one.values[RSS]}) for one in result.samples]
    write_csv(two, file := tmp_path / "soak.csv")
    with file.open(newline="") as lines:
        head, first, *others = csv.reader(lines)
    assert head == ["seconds", "runs: finished a second", "worker 1: rss"]
    assert first == ["10.0", "70.0", "90000000.0"]
    assert len(others) == 359


def test_an_hour_has_postgresqls_own_pace_and_a_minute_is_an_hour_in_small() -> None:
    hour, minute = Plan(3600), Plan(60)
    assert (hour.warm_up, hour.retention, hour.interval, hour.samples) == (900, 300, 10, 360)
    assert hour.postgres["autovacuum_naptime"] == "60s"
    assert (minute.warm_up, minute.retention, minute.interval, minute.samples) == (15, 10, 0.5, 120)
    assert minute.postgres["autovacuum_naptime"] == "1s"

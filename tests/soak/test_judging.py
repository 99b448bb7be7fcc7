"""What the judge of a soak calls flat, and that it sees whatever is planted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from django_durable.conf import durable_settings
from tests.soak.judging import EXTENSION, MORE, PAGE, SMALL_TABLE, SPLITS, Verdict, judge, peaks, rules, unjudged
from tests.soak.measures import Kind, Measure, Sample

WARM_UP, MEASURED, INTERVAL = 900.0, 2700.0, 10.0
RATE = 50.0

Course = Callable[[float], float]
"""How much there is, by the part of the measured time that is over: below 0 while it warms up."""


def judged(*courses: tuple[Measure, Course]) -> list[Verdict]:
    moments = [INTERVAL * number for number in range(int((WARM_UP + MEASURED) / INTERVAL) + 1)]
    samples = [
        Sample(at, {measure: course((at - WARM_UP) / MEASURED) for measure, course in courses}) for at in moments
    ]
    return judge(samples, WARM_UP, rules(RATE))


def is_flat(kind: Kind, course: Course) -> bool:
    [verdict] = judged((Measure(kind, "it"), course))
    return verdict.is_flat


def growing(start: float, by: float) -> Course:
    """From ``start`` at the end of the warm-up, by that part of it until the end."""
    return lambda part: start * (1 + by * part)


EVERYTHING = {
    Kind.RSS: 90e6,
    Kind.PSS: 70e6,
    Kind.FDS: 100,
    Kind.THREADS: 60,
    Kind.CONNECTIONS: 80,
    Kind.SNAPSHOT: 10_000,
    Kind.LIVE_ROWS: 20_000,
    Kind.TABLE: 20e6,
    Kind.INDEXES: 20e6,
    Kind.REDIS: 20e6,
    Kind.LISTED: 1_000,
    Kind.LIVE_RUNS: 1_000,
    Kind.P50: 5,
    Kind.P99: 50,
}


@pytest.mark.parametrize("kind", EVERYTHING)
def test_a_leak_is_found_in_each_series(kind: Kind) -> None:
    """The medians of the quarters stand three quarters of the growth apart."""
    assert is_flat(kind, growing(EVERYTHING[kind], 0.05))
    assert not is_flat(kind, growing(EVERYTHING[kind], 0.3))


def test_memory_that_grows_by_a_fifth_is_found_and_the_amount_is_told() -> None:
    [verdict] = judged((Measure(Kind.RSS, "worker 1"), growing(100e6, 0.2)))
    assert not verdict.is_flat
    assert verdict.first == pytest.approx(102.5e6, rel=1e-3)
    assert verdict.last == pytest.approx(117.5e6, rel=1e-3)
    assert verdict.allowed == pytest.approx((1 + MORE) * verdict.first)
    assert verdict.growth == pytest.approx(0.146, abs=0.001)


def test_every_kind_that_is_judged_has_been_seen_to_fail() -> None:
    assert {*EVERYTHING, Kind.DEAD_ROWS, Kind.HEARTBEAT} == rules(RATE).keys()


def test_what_comes_while_it_warms_up_does_not_count() -> None:
    assert is_flat(Kind.RSS, lambda part: 100e6 if part >= 0 else 10e6)


def test_an_outlier_at_the_end_does_not_count() -> None:
    assert is_flat(Kind.RSS, lambda part: 500e6 if part == 1 else 100e6)


def test_less_is_flat() -> None:
    assert is_flat(Kind.RSS, growing(100e6, -0.5))


@pytest.mark.parametrize(
    ("kind", "start", "more"),
    [(Kind.FDS, 12, 3), (Kind.TABLE, 2 * PAGE, EXTENSION), (Kind.INDEXES, 2 * PAGE, SPLITS)],
)
def test_the_little_that_is_chance_is_allowed_and_no_more(kind: Kind, start: float, more: float) -> None:
    assert is_flat(kind, lambda part: start + (more if part > 0.5 else 0))
    assert not is_flat(kind, lambda part: start + (1.5 * more if part > 0.5 else 0))


def test_what_is_read_no_more_is_no_verdict() -> None:
    samples = [Sample(float(at), {Measure(Kind.RSS, "worker 1"): 1.0} if at < 50 else {}) for at in range(100)]
    with pytest.raises(ValueError, match="worker 1: rss was not read"):
        judge(samples, 0, rules(RATE))


def test_a_kind_of_which_nothing_is_read_is_told() -> None:
    of_all = [(Measure(kind, "it"), growing(1.0, 0)) for kind in Kind]
    of_others = [(measure, course) for measure, course in of_all if measure.kind not in (Kind.P99, Kind.TABLE)]
    assert unjudged(judged(*of_all), rules(RATE)) == []
    assert unjudged(judged(*of_others), rules(RATE)) == [Kind.P99, Kind.TABLE]
    assert unjudged([], rules(RATE)) == sorted(rules(RATE))


def test_a_snapshot_that_somebody_holds_is_found() -> None:
    """Of a run that takes no more than three transactions."""
    assert is_flat(Kind.SNAPSHOT, lambda part: 20 if part < 0.5 else 200)
    held_since = 0.75
    assert not is_flat(Kind.SNAPSHOT, lambda part: max(20, 3 * RATE * MEASURED * (part - held_since)))


# --- heartbeats ------------------------------------------------------------------------------

LEASE = durable_settings().LEASE_SECONDS
USUAL = LEASE / 3


def silent_for(gap: float, *, since: float = WARM_UP + MEASURED / 2) -> Verdict:
    """Of a worker whose heartbeats come as they should, but for once."""

    def silence(part: float) -> float:
        passed = WARM_UP + MEASURED * part - since
        return passed if 0 <= passed < gap else USUAL

    [verdict] = judged((Measure(Kind.HEARTBEAT, "workers"), silence))
    return verdict


def test_heartbeats_may_come_as_late_as_keeps_every_lease() -> None:
    assert silent_for(0).is_flat
    assert silent_for(LEASE - 2 * INTERVAL).is_flat


@pytest.mark.parametrize("after_a_sample", [0.1, INTERVAL / 2, INTERVAL - 0.1])
def test_a_gap_of_a_lease_is_found_wherever_the_samples_are(after_a_sample: float) -> None:
    assert not silent_for(LEASE, since=WARM_UP + MEASURED / 2 + after_a_sample).is_flat


def test_a_worker_that_has_always_been_late_is_found() -> None:
    [verdict] = judged((Measure(Kind.HEARTBEAT, "workers"), lambda part: LEASE - INTERVAL / 2))
    assert verdict.growth == 0
    assert not verdict.is_flat


# --- rows that a vacuum takes away -----------------------------------------------------------

TABLE = "journalentry"
EACH = 500.0
"""Dead rows from one sample to the next."""


def sawtooth(cycle: Callable[[float], int | None], left: Course = lambda part: 0.0) -> list[Verdict]:
    """Rows that die steadily. A vacuum comes after so many samples, or none any more, and leaves some of them."""
    dead, vacuums, since = 0.0, 0, 0
    samples = []
    for number in count():
        at = INTERVAL * number
        part = (at - WARM_UP) / MEASURED
        if part > 1:
            break
        wanted = cycle(part)
        dead, since = dead + EACH, since + 1
        if wanted is not None and since >= wanted:
            dead, vacuums, since = left(part), vacuums + 1, 0
        samples.append(Sample(at, {Measure(Kind.DEAD_ROWS, TABLE): dead, Measure(Kind.VACUUMS, TABLE): vacuums}))
    return judge(samples, WARM_UP, rules(RATE))


def test_a_sawtooth_is_flat_wherever_its_teeth_stand() -> None:
    [verdict] = sawtooth(lambda part: 13)
    assert verdict.is_flat
    assert verdict.first == verdict.last == 12 * EACH
    assert verdict.allowed == pytest.approx(12 * EACH * (1 + MORE) + SMALL_TABLE + EACH)


def test_teeth_that_grow_are_found() -> None:
    [verdict] = sawtooth(lambda part: 13 if part < 0.5 else 18)
    assert not verdict.is_flat


def test_rows_that_no_vacuum_can_take_away_are_found() -> None:
    """As somebody holds a snapshot: it comes, and leaves them where they are."""
    [verdict] = sawtooth(lambda part: 13, left=lambda part: max(0.0, 10_000 * part))
    assert not verdict.is_flat


def test_vacuums_that_come_no_more_are_found() -> None:
    [verdict] = sawtooth(lambda part: 13 if part < 0.6 else None)
    assert not verdict.is_flat


def test_the_tooth_that_is_not_over_does_not_count() -> None:
    dead, vacuums = Measure(Kind.DEAD_ROWS, TABLE), Measure(Kind.VACUUMS, TABLE)
    rows = [(0, 5, 0), (1, 9, 0), (2, 1, 1), (3, 7, 1), (4, 0, 2), (5, 3, 2)]
    samples = [Sample(at, {dead: value, vacuums: cycle}) for at, value, cycle in rows]
    assert peaks(samples, dead) == [(1, 9), (3, 7)]

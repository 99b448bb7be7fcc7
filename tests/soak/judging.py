"""Whether what was read of a soak has grown: the last quarter of what was measured beside the first. And whether all of
it was within what a setting asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from django_durable.conf import durable_settings
from tests.soak.measures import Kind, Measure, Sample

MORE = 0.1
"""The part that the end may have more than the beginning."""

PAGE = 8192
EXTENSION = 64 * PAGE
"""Bytes by which PostgreSQL extends a table at most at a time, where several wait for room in it."""
SPLITS = 16 * PAGE
"""Indexes get one page at a time: so many have one more where each index of the runs has, of which most are tiny."""
REDIS_BUFFERS = 512 * 1024
"""Bytes that Redis has for what its clients say: they come and go with connections."""
ASYNC_THREADS = 2
"""An async attempt that does something sync has a thread and a connection for as long as it lasts: how many there are
at a glance is chance, of one or two on average in each process."""
SMALL_TABLE = 250
"""Dead rows that autovacuum leaves in a table of a thousand (50 and a fifth); and about as many live ones are the
statistics of ten minutes, which go together."""
SNAPSHOT_SECONDS = 10
"""Whose statement is the longest at a glance is chance, and how many transactions that is behind; of a snapshot that is
held it is soon more than the runs of so many seconds are, each of which takes several."""
POLL = 1.0
"""Seconds that come on top of a latency where the word that a run is ready was missed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``spare`` is what there may be more besides the tenth, in absolute terms. ``is_sawtooth``: what counts are the
    peaks, and they may differ by what comes between two samples. ``most``: what there may be at any time, between two
    samples too, of something that grows as time passes; what there was at the beginning does not matter then."""

    spare: float = 0.0
    is_sawtooth: bool = False
    most: float | None = None


def rules(rate: float) -> dict[Kind, Rule]:
    """What is judged, and how, at so many runs a second: of runs and ids as many as start in a second may be under way
    more, or less, at any moment."""
    return {
        Kind.RSS: Rule(),
        Kind.PSS: Rule(),
        Kind.FDS: Rule(ASYNC_THREADS),
        Kind.THREADS: Rule(ASYNC_THREADS),
        Kind.CONNECTIONS: Rule(2 * ASYNC_THREADS),
        Kind.SNAPSHOT: Rule(SNAPSHOT_SECONDS * rate),
        # Between two heartbeats that are a lease apart the leases have lapsed.
        Kind.HEARTBEAT: Rule(most=durable_settings().LEASE_SECONDS),
        Kind.LIVE_ROWS: Rule(SMALL_TABLE),
        Kind.DEAD_ROWS: Rule(SMALL_TABLE, is_sawtooth=True),
        Kind.TABLE: Rule(EXTENSION),
        Kind.INDEXES: Rule(SPLITS),
        Kind.REDIS: Rule(REDIS_BUFFERS),
        Kind.LISTED: Rule(rate),
        Kind.LIVE_RUNS: Rule(rate),
        Kind.P50: Rule(POLL / 10),
        Kind.P99: Rule(POLL),
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there was of a measure at the beginning and at the end, and how much that may be."""

    measure: Measure
    first: float
    last: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.last <= self.allowed

    @property
    def growth(self) -> float:
        """As a part of the beginning; 0 where nothing was there."""
        return self.last / self.first - 1 if self.first else 0.0


def judge(samples: Sequence[Sample], warm_up: float, by: Mapping[Kind, Rule]) -> list[Verdict]:
    """One verdict for each measure that has a rule; of a kind that was never read there is none (`unjudged`). Raises
    ValueError where one was not read in one of the quarters."""
    measured = [sample for sample in samples if sample.at >= warm_up]
    found = {measure for sample in measured for measure in sample.values if measure.kind in by}
    return [_judge(measured, measure, by[measure.kind]) for measure in sorted(found, key=str)]


def unjudged(verdicts: Iterable[Verdict], by: Mapping[Kind, Rule]) -> list[Kind]:
    """What has a rule and no verdict, as nothing of it was read: nobody can say that it has not grown."""
    return sorted(by.keys() - {verdict.measure.kind for verdict in verdicts})


Point = tuple[float, float]
"""When, and how much."""


def _judge(samples: Sequence[Sample], measure: Measure, rule: Rule) -> Verdict:
    since, until = samples[0].at, samples[-1].at
    quarter = (until - since) / 4
    points = [(sample.at, sample.values[measure]) for sample in samples if measure in sample.values]
    first = [point for point in points if point[0] <= since + quarter]
    last = [point for point in points if point[0] >= until - quarter]
    if not first or not last:
        raise ValueError(f"{measure} was not read for a quarter of the time")
    if rule.most is not None:
        unseen = max((later - earlier for (earlier, _), (later, _) in pairwise(points)), default=0.0)
        return Verdict(measure, _highest(first), _highest(points), rule.most - unseen)
    if not rule.is_sawtooth:
        begun, ended = _median(first), _median(last)
        return Verdict(measure, begun, ended, begun * (1 + MORE) + rule.spare)
    tips = peaks(samples, measure)
    begun = _height(first, [tip for tip in tips if tip in first])
    ended = _height(last, [tip for tip in tips if tip in last])
    return Verdict(measure, begun, ended, begun * (1 + MORE) + rule.spare + _rise(first))


def peaks(samples: Iterable[Sample], measure: Measure) -> list[Point]:
    """The most that there was of each cycle between two vacuums of the table. How high the last cycle will rise nobody
    knows yet."""
    highest: dict[float, Point] = {}
    for sample in samples:
        cycle = sample.values[Measure(Kind.VACUUMS, measure.of)]
        point = (sample.at, sample.values[measure])
        highest[cycle] = max(highest.get(cycle, point), point, key=_value)
    return list(highest.values())[:-1]


def _height(points: Sequence[Point], tips: Sequence[Point]) -> float:
    """Of a quarter in which no cycle came to its end, the most that was there."""
    return _median(tips) if tips else _highest(points)


def _rise(points: Sequence[Point]) -> float:
    """What usually comes from one sample to the next: no peak is seen any sharper."""
    rises = [later - earlier for (_, earlier), (_, later) in pairwise(points) if later > earlier]
    return median(rises) if rises else 0.0


def _median(points: Iterable[Point]) -> float:
    return median(map(_value, points))


def _highest(points: Iterable[Point]) -> float:
    return max(map(_value, points))


def _value(point: Point) -> float:
    return point[1]

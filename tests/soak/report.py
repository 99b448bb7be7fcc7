"""What a soak comes to: whether it is good enough, and how it is shown."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from tests.soak.databases import RUNS
from tests.soak.judging import Verdict, judge, rules, unjudged
from tests.soak.load import Said
from tests.soak.measures import Kind, Measure, Sample
from tests.soak.plan import Plan

HELD = 0.95
"""The part of the runs that were to come which has to be over in the same time: chance apart, all of them."""
LATE_MOST = 5.0
"""Seconds that a client may be late at worst: beyond that it is not the one that sets the pace."""

SIZES = (Kind.RSS, Kind.PSS, Kind.TABLE, Kind.INDEXES, Kind.REDIS)
TIMES = (Kind.P50, Kind.P99, Kind.HEARTBEAT)


@dataclass(slots=True)
class Result:
    """``capacity`` and what is derived from it are runs a second; ``wrong`` is what ended it, or went wrong at its
    end."""

    plan: Plan
    seed: str
    capacity: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    said: Said = field(default_factory=Said)
    failed: int = 0
    wrong: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.plan.load * self.capacity

    @property
    def finished_rate(self) -> float:
        """After the warm-up."""
        measure = Measure(Kind.FINISHED, RUNS)
        rates = [sample.values[measure] for sample in self.samples if sample.at >= self.plan.warm_up]
        return mean(rates) if rates else 0.0

    def judge(self) -> None:
        """Nothing that was cut short is judged."""
        if len(self.samples) == self.plan.samples:
            self.verdicts = judge(self.samples, self.plan.warm_up, rules(self.rate))


def missed(result: Result) -> Iterator[str]:
    """Why the soak is no good, in words."""
    yield from result.wrong
    if len(result.samples) < result.plan.samples:
        yield f"{len(result.samples)} samples of {result.plan.samples}"
    elif kinds := unjudged(result.verdicts, rules(result.rate)):
        yield f"never read: {', '.join(kinds)}"
    if result.said.stumbled:
        yield result.said.stumbled
    if result.said.late > LATE_MOST:
        yield f"the client was {result.said.late:.1f} s late, and {LATE_MOST:g} s are the most"
    if result.finished_rate < HELD * result.rate:
        yield f"{result.finished_rate:.1f} runs a second were finished, of {result.rate:.1f} that were to come"
    if result.failed:
        yield f"{result.failed} runs failed, of which none should"
    for verdict in result.verdicts:
        if not verdict.is_flat:
            yield f"{verdict.measure} has grown: {_shown(verdict)}"


def table(result: Result) -> str:
    head = (
        f"{result.plan.seconds / 60:g} minutes at {result.plan.load:.0%} of {result.capacity:.1f} runs a second, "
        f"{result.plan.warm_up / 60:g} to warm up: {result.said.started:,} runs, "
        f"{result.finished_rate:.1f} finished a second, {result.failed} failed"
    )
    rows = [f"  {'grown' if not one.is_flat else 'flat':6}{one.measure!s:38}{_shown(one)}" for one in result.verdicts]
    return "\n".join([head, *rows])


def _shown(verdict: Verdict) -> str:
    first, last, allowed = (
        _amount(verdict.measure.kind, one) for one in (verdict.first, verdict.last, verdict.allowed)
    )
    return f"{first} -> {last} ({verdict.growth:+.1%}; at most {allowed})"


def _amount(kind: Kind, value: float) -> str:
    if kind in SIZES:
        return f"{value / 1e6:,.2f} MB"
    return f"{value:.2f} s" if kind in TIMES else f"{value:,.0f}"


def as_data(result: Result) -> dict[str, Any]:
    """The last line of the output."""
    troubles = list(missed(result))
    return {
        "ok": not troubles,
        "seed": result.seed,
        "minutes": round(result.plan.seconds / 60, 2),
        "warm_up_minutes": round(result.plan.warm_up / 60, 2),
        "load": result.plan.load,
        "capacity": round(result.capacity, 1),
        "rate": round(result.rate, 1),
        "finished_rate": round(result.finished_rate, 1),
        "started": result.said.started,
        "late": round(result.said.late, 2),
        "failed": result.failed,
        "missed": troubles,
        "series": {str(one.measure): _numbers(one) for one in result.verdicts},
    }


def _numbers(verdict: Verdict) -> dict[str, Any]:
    return {
        "first": round(verdict.first, 3),
        "last": round(verdict.last, 3),
        "growth": round(verdict.growth, 4),
        "allowed": round(verdict.allowed, 3),
        "flat": verdict.is_flat,
    }


def write_csv(samples: Sequence[Sample], file: Path) -> None:
    """A line for each sample, a column for each measure."""
    measures = sorted({measure for sample in samples for measure in sample.values}, key=str)
    with file.open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(["seconds", *map(str, measures)])
        for sample in samples:
            writer.writerow([round(sample.at, 1), *(sample.values.get(measure, "") for measure in measures)])

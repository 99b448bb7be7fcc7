"""The figures as a table: ratios first, then a block for each figure, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from .goals import Verdict, verdicts
from .ledger import Ledger, Series
from .sample import FROM_RELEASE

PARTIES = ("client", "workers", "postgres")
COSTS = (*(f"cpu_us_{party}" for party in PARTIES), "write_transactions", "wal_bytes", "dead_rows", FROM_RELEASE)
TIMED_SINGLY = ("S6_latency_p50_ms", "S6_latency_p99_ms")
"""Figures of so many single runs as came in the time."""


def report(ledger: Ledger) -> str:
    """Lines of plain text, a table for each figure."""
    return "\n".join([*_ratios(verdicts(ledger)), *_figures(ledger)])


def best_first(group: Iterable[Series]) -> list[Series]:
    """Series of one figure."""
    return sorted(group, key=lambda series: series.median if series.is_cost else -series.median)


def _ratios(found: list[Verdict]) -> Iterator[str]:
    yield f"{'ratio':32} {'is':>9} {'goal':>9}"
    for verdict in found:
        sign = "<=" if verdict.is_less else ">="
        goal = f"{sign} {verdict.goal:6.2f}" if verdict.goal else " " * 9
        yield f"{verdict.name:32} {verdict.ratio:9.2f} {goal} {'' if verdict.is_met else 'MISSED'}".rstrip()


def _figures(ledger: Ledger) -> Iterator[str]:
    in_order = sorted(ledger.series.values(), key=lambda series: series.figure)
    for figure, group in groupby(in_order, key=lambda series: series.figure):
        names = (*COSTS, "runs timed") if figure in TIMED_SINGLY else COSTS
        yield f"\n{figure:30} {'median':>10} {'min - max':>21} {'n':>2}  " + "  ".join(f"{name:>18}" for name in names)
        for series in best_first(group):
            yield _line(series)


def runs_timed(series: Series) -> str:
    """How many each repetition had: the 99th percentile of ten is their maximum. Empty where nobody noted it."""
    fewest, most = min(series.operations, default=0), max(series.operations, default=0)
    return f"{fewest:,} - {most:,}" if fewest < most else f"{most:,}" if most else ""


def _line(series: Series) -> str:
    name = f"{series.system} {series.variant}"
    span = f"{number(min(series.values))} - {number(max(series.values))}"
    costs = (f"{series.cost[cost]:>18,.2f}" if cost in series.cost else " " * 18 for cost in COSTS)
    line = f"{name:30} {number(series.median):>10} {span:>21} {len(series.values):>2}  {'  '.join(costs)}"
    if series.figure in TIMED_SINGLY:
        line += f"  {runs_timed(series):>18}"
    return line.rstrip()


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"

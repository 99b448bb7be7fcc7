"""``docs/performance.md`` and its chart, made from ``results.json``: nothing is written there that was not measured.

``python -m benchmarks.suite.page`` writes both anew without measuring.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from .chart import chart
from .goals import Verdict, verdicts
from .ledger import Ledger, Series
from .report import best_first, number
from .systems import PARTICIPANTS

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
PAGE, CHART = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
PLACE = "<!-- from here on: written by `make bench` -->"

FIGURES = {
    "commit_ms": "S0: one inserted row a commit through psycopg, ms",
    "batched_insert": "S0: rows inserted 500 a commit through psycopg, a second",
    "S1_enqueue": "S1: runs enqueued one by one, a second",
    "S1_bulk": "S1: runs enqueued 500 a call, a second",
    "S2_drain": "S2: 5,000 one-step runs by two worker processes, runs a second",
    "S3_steps": "S3: 200 runs of 10 steps by one worker process, steps a second",
    "S4_step_ms": "S4: one run of 500 steps, ms a step",
    "S6_latency_p50_ms": "S6: from enqueue to result, idle system, median ms",
    "S6_latency_p99_ms": "S6: the same, 99th percentile, ms",
    "S9_mixed": "S9: one producer and two worker processes at once, runs a second",
}


def write(ledger: Ledger) -> None:
    """Leaves what stands above ``PLACE``, which people write, and renews the rest."""
    CHART.write_text(chart(ledger, [one.name for one in PARTICIPANTS if not one.is_durable]))
    written_by_hand = PAGE.read_text().partition(PLACE)[0]
    PAGE.write_text("\n".join([f"{written_by_hand}{PLACE}", "", *_measured(ledger)]) + "\n")


def _measured(ledger: Ledger) -> Iterator[str]:
    machine = ledger.machine
    commit = ledger.figure("commit_ms", "limits", "django")
    yield (
        f"Measured on {machine['begun'][:10]}: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}"
        + (f"; a commit of one row took {commit.median:.2f} ms (median)." if commit else ".")
    )
    yield "\n![rates of each system](performance.svg)\n"
    yield "Pale bars: systems that lose work when a machine or Redis does.\n"
    yield from _ratios(verdicts(ledger))
    for figure, title in FIGURES.items():
        group = [series for series in ledger.series.values() if series.figure == figure]
        if group:
            yield from _table(title, group)


def _ratios(found: list[Verdict]) -> Iterator[str]:
    yield "| ratio | is | goal | |\n|---|---|---|---|"
    for _, group in groupby(found, key=lambda verdict: verdict.name.split("_")[0]):
        for one in group:
            goal = f"{one.goal:g}" if one.goal else ""
            yield f"| `{one.name}` | {one.ratio:.2f} | {goal} | {'' if one.is_met else 'missed'} |"


def _table(title: str, group: list[Series]) -> Iterator[str]:
    yield f"\n### {title}\n"
    yield "| | median | min - max | n | CPU client, workers, PostgreSQL | write transactions | WAL bytes | dead rows |"
    yield "|---|---|---|---|---|---|---|---|"
    for series in best_first(group):
        cost = series.cost
        cpu = ", ".join(f"{100 * cost[f'cpu_{party}']:.0f} %" for party in ("client", "workers", "postgres"))
        each = " | ".join(
            number(cost[name]) if name in cost else "" for name in ("write_transactions", "wal_bytes", "dead_rows")
        )
        span = f"{number(min(series.values))} - {number(max(series.values))}"
        name = f"{series.system} {series.variant}"
        yield f"| {name} | {number(series.median)} | {span} | {len(series.values)} | {cpu} | {each} |"


if __name__ == "__main__":
    write(Ledger.load(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))

"""``docs/performance.md`` and its chart, made from ``results.json``: nothing is written there that was not measured.

``python -m benchmarks.suite.page`` judges anew what was measured, and writes both anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from .chart import chart
from .goals import Verdict, judge, verdicts
from .ledger import Ledger, Series
from .lines import CURVES, Curve, Points, drawn, points
from .report import PARTIES, TIMED_SINGLY, best_first, number, runs_timed
from .sample import FROM_RELEASE
from .systems import FLOOR, PARTICIPANTS

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
    "S4_commit_ms": "S4: one inserted row a commit through psycopg meanwhile, ms",
    "S5_without_enqueue": "S5: runs enqueued one by one in empty tables, a second",
    "S5_with_enqueue": "S5: runs enqueued one by one beside 1,000,000 finished ones, a second",
    "S5_without_bulk": "S5: runs enqueued 500 a call in empty tables, a second",
    "S5_with_bulk": "S5: runs enqueued 500 a call beside 1,000,000 finished ones, a second",
    "S5_without_drain": "S5: 5,000 one-step runs by two worker processes in empty tables, runs a second",
    "S5_with_drain": "S5: 5,000 one-step runs by two worker processes beside 1,000,000 finished ones, runs a second",
    "S6_latency_p50_ms": "S6: from enqueue to result, idle system, median ms",
    "S6_latency_p99_ms": "S6: from enqueue to result, idle system, 99th percentile, ms",
    "S6_commit_ms": "S6: one inserted row a commit through psycopg meanwhile, ms",
    "S7_lag_p50_ms": "S7: from the end of a sleep to the claim, 100,000 asleep, 1,000 due each second, median ms",
    "S7_lag_p99_ms": (
        "S7: from the end of a sleep to the claim, 100,000 asleep, 1,000 due each second, 99th percentile, ms"
    ),
    "S7_rss_more_mb": "S7: memory of a worker process beyond that of an idle one, 1,000 due each second, MB",
    "S7_asleep_more_mb": "S7: memory of a worker process beyond that of an idle one, 100,000 asleep, none due, MB",
    "S7_idle_queries": "S7: statements of two worker processes, 100,000 asleep, none due, a second",
    "S7_beside_lag_p50_ms": (
        "S7: from the end of a sleep to the code after it, 5,000 asleep, 100 due each second, median ms"
    ),
    "S7_beside_lag_p99_ms": (
        "S7: from the end of a sleep to the code after it, 5,000 asleep, 100 due each second, 99th percentile, ms"
    ),
    "S7_beside_more_mb": "S7: memory of all processes beyond that of idle ones, 5,000 asleep, 100 due each second, MB",
    "S7_beside_asleep_mb": "S7: memory of all processes beyond that of idle ones, 5,000 asleep, none due, MB",
    "S8_few_child_ms": "S8: a child of a fan-out of 1,000, two worker processes, ms",
    "S8_many_child_ms": "S8: a child of a fan-out of 10,000, two worker processes, ms",
    "S8_early_turn_us": "S8: the engine's own work in a turn around the 100th of a loop, microseconds",
    "S8_late_turn_us": "S8: the engine's own work in the last of 10,000 turns, microseconds",
    "S8_early_turn_ms": "S8: a turn of one step by a worker process, turns 100 to 1,100 of a loop, ms",
    "S8_late_turn_ms": "S8: a turn of one step by a worker process, the last 1,000 of 10,000 turns, ms",
    "S9_mixed": "S9: one producer and two worker processes at once, runs a second",
    "S10_fast_commit_ms": "S10: a commit on the fast disk, ms",
    "S10_slow_commit_ms": "S10: a commit on the slow disk, ms",
    "S10_fast_drain": "S10: S2 on the fast disk, runs a second",
    "S10_slow_drain": "S10: S2 on the slow disk, runs a second",
    "S10_fast_steps": "S10: S3 on the fast disk, steps a second",
    "S10_slow_steps": "S10: S3 on the slow disk, steps a second",
    "S10_fast_step_ms": "S10: S4 on the fast disk, ms a step",
    "S10_slow_step_ms": "S10: S4 on the slow disk, ms a step",
}
"""Those of ``make bench``, and of ``make bench-all`` besides; the curves are drawn."""


def write(ledger: Ledger) -> None:
    """Leaves what stands above ``PLACE``, which people write, and renews the rest, with the curves beside it."""
    CHART.write_text(chart(ledger, [one.name for one in PARTICIPANTS if not one.is_durable]))
    written_by_hand = PAGE.read_text().partition(PLACE)[0]
    PAGE.write_text("\n".join([f"{written_by_hand}{PLACE}", "", *_measured(ledger)]) + "\n")


def _measured(ledger: Ledger) -> Iterator[str]:
    machine = ledger.machine
    commit = ledger.figure("commit_ms", FLOOR, "django")
    yield (
        f"Measured on {machine['begun'][:10]}: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}{''.join(_provenance(ledger))}"
        + (f"; a commit of one row took {commit.median:.2f} ms (median)." if commit else ".")
    )
    peers = [" ".join(f"{name} {of}" for name, of in one.items()) for one in ledger.peers.values()]
    if peers:
        yield f"\nBeside it: {'; '.join(peers)}."
    yield "\n![rates of each system](performance.svg)\n"
    yield (
        "Pale bars: systems that lose work when a machine or Redis does. From the release: had time run from when the"
        " workers were let go; said where that is less than four fifths of it.\n"
    )
    yield from _ratios(verdicts(ledger))
    for figure, title in FIGURES.items():
        group = [series for series in ledger.series.values() if series.figure == figure]
        if group:
            yield from _table(title, group)
    yield from _growth(ledger)


def _provenance(ledger: Ledger) -> Iterator[str]:
    """What older results do not tell, nor those of a folder without git."""
    if ledger.servers:
        yield f", PostgreSQL {ledger.servers['postgres']}, Redis {ledger.servers['redis']}"
    if commit := ledger.machine.get("commit"):
        revision, changed, _ = commit.partition("+")
        yield f", commit {revision[:10]}{' with changes' if changed else ''}"
    took = [f"`make {part}` took {seconds / 60:.0f} minutes" for part, seconds in sorted(ledger.seconds.items())]
    if took:
        yield f"; {', '.join(took)}"


def _growth(ledger: Ledger) -> Iterator[str]:
    curves = [(curve, lines) for curve in CURVES if (lines := points(ledger, curve))]
    if curves:
        yield "\n### Growth"
    for curve, lines in curves:
        picture = PAGE.parent / f"performance-{curve.name.replace('_', '-')}.svg"
        picture.write_text(drawn(curve, lines))
        yield f"\n![{curve.title}, by {curve.along}]({picture.name})\n"
        yield from _curve_table(curve, lines)


def _curve_table(curve: Curve, lines: dict[str, Points]) -> Iterator[str]:
    xs = sorted({x for line in lines.values() for x, _ in line})
    yield f"| {curve.along} | {' | '.join(f'{x:,.0f}' for x in xs)} |"
    yield f"|---{'|---' * len(xs)}|"
    for variant, line in lines.items():
        known = dict(line)
        yield f"| {variant} | {' | '.join(number(known[x]) if x in known else '' for x in xs)} |"


def _span(series: Series) -> str:
    return f"{number(min(series.values))} - {number(max(series.values))}"


def _ratios(found: list[Verdict]) -> Iterator[str]:
    yield "| ratio | is | goal | |\n|---|---|---|---|"
    for one in found:
        goal = f"{'≤' if one.is_less else '≥'} {one.goal:g}" if one.goal else ""
        yield f"| `{one.name}` | {one.ratio:.2f} | {goal} | {'' if one.is_met else 'missed'} |"


COSTS = "CPU client, workers, PostgreSQL, µs each | write transactions | WAL bytes | dead rows"


def _costs(series: Series) -> str:
    """The cells below ``COSTS``; empty where nobody measured it."""
    cost = series.cost
    cpu = " / ".join(f"{cost[name]:,.0f}" for party in PARTIES if (name := f"cpu_us_{party}") in cost)
    each = (number(cost[name]) if name in cost else "" for name in ("write_transactions", "wal_bytes", "dead_rows"))
    return " | ".join([cpu, *each])


def _table(title: str, group: list[Series]) -> Iterator[str]:
    more = {
        "runs timed each time": runs_timed if group[0].figure in TIMED_SINGLY else None,
        "from the release": _from_release if any(map(_from_release, group)) else None,
    }
    columns = {name: cell for name, cell in more.items() if cell}
    names = ["median", "min - max", "n", *columns, COSTS]
    yield f"\n### {title}\n"
    yield f"| | {' | '.join(names)} |"
    yield f"|---{'|---' * (len(names) + COSTS.count('|'))}|"
    for series in best_first(group):
        times = [number(series.median), _span(series), f"{len(series.values)}"]
        cells = [*times, *(cell(series) for cell in columns.values()), _costs(series)]
        yield f"| {series.system} {series.variant} | {' | '.join(cells)} |"


def _from_release(series: Series) -> str:
    return number(series.cost[FROM_RELEASE]) if FROM_RELEASE in series.cost else ""


if __name__ == "__main__":
    read = Ledger.load(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    judge(read)
    read.save()
    write(read)

"""docs/scaling.md: what a run costs is as the benchmark measured it last, and every estimate is arithmetic on that."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log10

import pytest

from benchmarks.suite.ledger import Ledger, Series
from benchmarks.suite.page import RESULTS
from tests.docs.figures import Figure, said, wrong
from tests.docs.reading import ROOT, table

PAGE = "docs/scaling.md"
BENCHMARK, ARITHMETIC = "benchmarks/results.json", "the costs that the page names"
MEASURED = Ledger.load(RESULTS)

COLUMNS = ("Python", "PostgreSQL", "WAL", "transactions")
RATES = (10, 1_000, 100_000)
COSTS = {row[""]: row for row in table(ROOT / PAGE, "", *COLUMNS)}
MANY = [list(row.values()) for row in table(ROOT / PAGE, "", *(f"{rate:,} runs/s" for rate in RATES))]
IDLE = table(ROOT / PAGE, "idle", "Redis", "database queue")

ENQUEUE, BULK = "`enqueue()`, one by one", "`enqueue_many()`, 500 at a time"
WORK = "working on it, `def`, 32 at a time (the default)"
*_, DELETE = COSTS
SERIES = {
    ENQUEUE: ("S1_enqueue", "sync"),
    BULK: ("S1_bulk", "sync"),
    WORK: ("S2_drain", "sync"),
    "the same with the database queue": ("S2_drain", "sync-database"),
    "`def`, 128 at a time": ("S2_drain", "sync-threads"),
    "`def`, 128 at a time, [pinned](performance.md#pinning-processes-to-cpus)": ("S2_drain", "sync-pinned"),
    "`async def`, 200 at a time": ("S2_drain", "async"),
}
"""The rows that are measured, each with what. The last row, deleting, is by hand."""


def test_no_row_of_the_costs_is_left_out() -> None:
    assert list(COSTS) == [*SERIES, DELETE] and "by hand, 20" in DELETE


@pytest.mark.parametrize("row", SERIES)
def test_a_run_costs_what_was_measured(row: str) -> None:
    cost = series(*SERIES[row]).cost
    python = cost["cpu_us_client" if SERIES[row][0].startswith("S1") else "cpu_us_workers"]
    right = [f"{cpu:.0f} µs" for cpu in (python, cost["cpu_us_postgres"])]
    right += [f"{cost['wal_bytes'] / 1000:.2f} kB", f"{cost['write_transactions']:.2g}"]
    assert not (told := different(list(COSTS[row].values()), [row, *right], BENCHMARK)), "\n".join(told)


def test_what_comes_of_many_runs_follows_from_what_one_costs() -> None:
    pairs = zip(MANY, estimates(), strict=False)
    told = [one for row, right in pairs for one in different(row, right, ARITHMETIC)]
    assert not told, "\n".join(told)


def test_what_the_text_says_is_measured_or_follows_from_it() -> None:
    told = [one for figure in (*of_benchmark(), *of_costs()) for one in wrong(figure)]
    assert not told, "\n".join(told)


def test_a_cell_that_is_stale_is_told_with_what_is_right() -> None:
    assert different(["row", "1 µs", "2 µs"], ["row", "1 µs", "3 µs"], "them") == [
        "docs/scaling.md, row 'row': says '2 µs', and it is '3 µs', by them"
    ]


@pytest.mark.parametrize(
    ("number", "text"), [(0.00141, "0.0014"), (0.7049, "0.7"), (14.1, "14"), (256.6, "260"), (7, "7")]
)
def test_an_estimate_has_two_digits(number: float, text: str) -> None:
    assert two(number) == text


@pytest.mark.parametrize(("kilobytes", "text"), [(0.5, "0.5 kB"), (999, "1,000 kB"), (1857.6, "1.9 MB"), (3e9, "3 TB")])
def test_a_size_has_a_unit_that_suits_it(kilobytes: float, text: str) -> None:
    assert size(kilobytes) == text


def series(figure: str, variant: str, system: str = "django_durable") -> Series:
    return MEASURED.series[f"{figure} {system} {variant}"]


def different(row: list[str], right: list[str], by: str) -> list[str]:
    return [
        f"{PAGE}, row {row[0]!r}: says {cell!r}, and it is {true!r}, by {by}"
        for cell, true in zip(row, right, strict=True)
        if cell != true
    ]


def of_benchmark() -> list[Figure]:
    call, commit = (1000 / series("S1_enqueue", "sync").median, series("commit_ms", "django", "limits").median)
    dead = series("S2_drain", "sync").cost["dead_rows"]
    shares = [float(amount(row, "transactions")) for row in SERIES if row not in (ENQUEUE, BULK)]
    runs = (round(1 / max(shares)), round(1 / min(shares)))
    return [
        Figure(PAGE, "takes # ms a call, and a commit of one row # ms", (round(call, 2), round(commit, 2)), BENCHMARK),
        Figure(PAGE, "It leaves # dead row versions when it is worked on", (round(dead),), BENCHMARK),
        Figure(PAGE, "where the workers have one for # to #", runs, ARITHMETIC),
    ]


def of_costs() -> list[Figure]:
    hundreds, every = (total("PostgreSQL", door, WORK, DELETE) * 5_000 / 1e6 for door in (BULK, ENQUEUE))
    workers, wal = total("Python", WORK) * 5_000 / 1e6, total("WAL", ENQUEUE, WORK, DELETE)
    idle = [100 * float(IDLE[0][queue]) for queue in ("database queue", "Redis")]
    found = {
        "three days are # GB": [3 * 86.4 * kept()],
        "# MB of WAL a second to write": [100 * wal],
        "# dead row versions a second for vacuum": [100_000 * sum(dead_rows())],
        "make # transactions a second to ask for work (estimate), which is little; with Redis it is #": idle,
        "# cores of PostgreSQL if they are enqueued by the hundreds, # if not": [hundreds, every],
        "# cores of workers; # MB/s of WAL": [workers, 5 * wal],
        "432 million runs and # GB a day, so # GB with `RETENTION_DAYS` of 0.25": [432 * kept(), 108 * kept()],
    }
    return [Figure(PAGE, words, tuple(map(rounded, true)), ARITHMETIC) for words, true in found.items()]


def estimates() -> list[list[str]]:
    """The rows of the page, as far as they hang on the costs."""
    python, day = total("Python", WORK), 86_400
    doors = {door: total("PostgreSQL", door, WORK, DELETE) for door in (ENQUEUE, BULK)}
    wal, dead = total("WAL", ENQUEUE, WORK, DELETE), dead_rows()

    def cores(microseconds: float) -> Callable[[int], str]:
        return lambda rate: f"{two(rate * microseconds / 1e6)} cores"

    def row(label: str, cell: Callable[[int], str]) -> list[str]:
        return [label, *map(cell, RATES)]

    return [
        row(f"workers' CPU ({plus('Python', WORK)})", cores(python)),
        row("processes for that, each busy at 60 %", lambda rate: f"{ceil(rate * python / 1e6 / 0.6)}"),
        row(
            f"PostgreSQL's CPU, enqueued one by one ({plus('PostgreSQL', ENQUEUE, WORK, DELETE)})",
            cores(doors[ENQUEUE]),
        ),
        row(f"the same, enqueued by the hundreds ({plus('PostgreSQL', BULK, WORK, DELETE)})", cores(doors[BULK])),
        row(
            f"WAL ({plus('WAL', ENQUEUE, WORK, DELETE)})",
            lambda rate: f"{size(rate * wal)}/s, {size(rate * wal * day)} a day",
        ),
        ["runs a day", "864,000", "86 million", "8.6 billion"],
        row(f"disk for each day that runs are kept ({kept():g} kB)", lambda rate: size(rate * day * kept())),
        row("the same, for `RETENTION_DAYS` of 30", lambda rate: size(30 * rate * day * kept())),
        row(f"dead row versions ({dead[0]:g} + {dead[1]:g})", lambda rate: f"{rate * sum(dead):,.15g}/s"),
    ]


def amount(row: str, column: str) -> str:
    return COSTS[row][column].split()[0]


def total(column: str, *rows: str) -> float:
    return sum(float(amount(row, column)) for row in rows)


def plus(column: str, *rows: str) -> str:
    unit = COSTS[rows[0]][column].split()[1]
    return f"{' + '.join(amount(row, column) for row in rows)} {unit}"


def kept() -> float:
    """Kilobytes on disk of each run."""
    return only("A finished run takes # kB on disk")[0]


def dead_rows() -> tuple[float, ...]:
    return only("It leaves # dead row versions when it is worked on (measured), and # when it is deleted")


def only(words: str) -> tuple[float, ...]:
    found = said(PAGE, words)
    assert len(found) == 1, f"{PAGE} says {len(found)} times {words!r}"
    return found[0][1]


def rounded(number: float) -> float:
    """To two digits; what lies half way, upwards, however a float has it."""
    return float(f"{number * (1 + 1e-12):.2g}")


def two(number: float) -> str:
    return f"{rounded(number):,.15g}"


def size(kilobytes: float) -> str:
    power = max(0, int(log10(kilobytes)) // 3)
    return f"{two(kilobytes / 1000**power)} {('kB', 'MB', 'GB', 'TB')[power]}"

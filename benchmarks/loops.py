"""What a turn of a long loop costs: in time, in journal rows, in memory, and at the next claim.

    python -m benchmarks.loops [--turns N] [--growth N]

Exit status 1 where a late turn costs more than an early one by that factor, where more rows of turns are in the journal
than those of its history, or where memory grows with the turns.
Without a database, so that only the engine's own work is measured: what it commits is kept in a dict.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Sequence
from copy import copy
from itertools import pairwise
from statistics import median
from typing import Any
from uuid import UUID

import django
from django.conf import settings

TURNS = 10_000
HISTORY = 20
WINDOW = 100
"""Turns that are measured around the 100th and the last one: the median of them stands for each."""
GROWTH_MAX = 1.2
ROWS_MAX = 2 * HISTORY + 1
"""A step and the mark of the turn for each that is kept, and the step of the one under way."""
REMEMBERED_MAX = 64 * 1024
"""Bytes: six for each of ten thousand turns, so that whatever a turn leaves behind shows."""
OTHERS = 5_000
ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table; 1 where one of its figures is past its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--growth", type=float, default=GROWTH_MAX, help="a late turn over an early one, at most")
    options = parser.parse_args(arguments)
    if not settings.configured:
        settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django_durable"], DATABASES={}, USE_TZ=True)
    django.setup()
    alone, beside = zip(*((measure(options.turns), measure(options.turns, OTHERS)) for _ in range(ROUNDS)), strict=True)
    late = median(found.late for found in alone)
    growths = {
        f"turn {options.turns:,} / turn {WINDOW}": median(found.late / found.early for found in alone),
        f"the same, beside {OTHERS:,} entries": median(found.late / found.early for found in beside),
        f"a turn beside {OTHERS:,} entries / alone": median(found.late for found in beside) / late,
        f"a claim at turn {options.turns:,} / at turn {WINDOW}": median(found.replay for found in alone),
    }
    print(f"a turn of one step: {late * 1e6:.1f} us (median of {WINDOW}, of {ROUNDS} runs)")
    for what, growth in growths.items():
        print(f"{what}: {growth:.2f}; at most {options.growth}")
    rows, more = max(found.rows for found in (*alone, *beside)), remembered(options.turns)
    print(f"journal rows of turns: {rows}; at most {ROWS_MAX} (history {HISTORY}: a step and a mark of each turn)")
    print(f"memory from turn {WINDOW} on: {more:+,} bytes; at most {REMEMBERED_MAX:+,}")
    return int(max(growths.values()) > options.growth or rows > ROWS_MAX or more > REMEMBERED_MAX)


class Measured:
    """Seconds of a turn near the beginning (``early``) and near the end (``late``), by their medians; ``replay`` how
    much longer a claim near the end takes to come to its turn than one near the beginning."""

    def __init__(self, seconds: list[float], rows: int, replay: float) -> None:
        self.early = median(seconds[WINDOW // 2 : WINDOW // 2 + WINDOW])
        self.late = median(seconds[-WINDOW:])
        self.rows = rows
        self.replay = replay


def measure(turns: int, others: int = 0) -> Measured:
    """Run a loop of ``turns`` turns in one attempt, beside ``others`` entries that were journaled before."""
    entries = _others(others)
    marks: list[float] = []
    states: dict[int, dict[str, Any]] = {}
    rows = 0

    def turn(ctx: Any, n: int) -> Any:
        nonlocal rows
        from django_durable import Break, Continue

        marks.append(time.perf_counter())
        ctx.step("work", int)
        if n in (WINDOW, turns - 2):
            states[n] = {path: copy(entry) for path, entry in entries.items()}
        if n % 500 == 0 or n == turns:
            rows = max(rows, sum(path.startswith("loop[") for path in entries))
        return Break() if n == turns else Continue(n + 1)

    gc.collect()
    gc.disable()
    try:
        _run(turn, entries)
    finally:
        gc.enable()
    seconds = [after - before for before, after in pairwise(marks)]
    replay = median(_claim(states[turns - 2]) for _ in range(51)) / median(_claim(states[WINDOW]) for _ in range(51))
    return Measured(seconds, rows, replay)


def _claim(entries: dict[str, Any]) -> float:
    """Seconds that a new claim takes to come to the turn that is under way."""
    began = time.perf_counter()
    reached: list[float] = []

    def turn(ctx: Any, n: int) -> Any:
        from django_durable import Break

        ctx.step("work", int)
        reached.append(time.perf_counter())
        return Break()

    _run(turn, dict(entries))
    return reached[0] - began


def remembered(turns: int) -> int:
    """Bytes that are allocated at the end and were not at turn ``WINDOW``."""
    found: dict[int, int] = {}

    def turn(ctx: Any, n: int) -> Any:
        from django_durable import Break, Continue

        ctx.step("work", int)
        if n in (WINDOW, turns):
            gc.collect()
            found[n] = tracemalloc.get_traced_memory()[0]
        return Break() if n == turns else Continue(n + 1)

    tracemalloc.start()
    try:
        _run(turn, {})
    finally:
        tracemalloc.stop()
    return found[turns] - found[WINDOW]


def _others(count: int) -> dict[str, Any]:
    from django_durable.core.journal.journal import Entry
    from django_durable.core.journal.states import EntryStatus, Kind

    paths = [f"other[{n}]" for n in range(count)]
    return {path: Entry(path, Kind.STEP, EntryStatus.SUCCEEDED, seq=n, value="null") for n, path in enumerate(paths, 1)}


def _run(turn: Any, entries: dict[str, Any]) -> None:
    from django_durable.core.context import Context
    from django_durable.core.flow.flow import Flow
    from django_durable.core.flow.lease import Lease
    from django_durable.core.flow.run_info import RunInfo
    from django_durable.core.journal.journal import MemoryJournal
    from django_durable.executor.branch_threads import NO_THREADS
    from django_durable.executor.sync_driver import SyncDriver

    run_id = UUID(int=1)
    lease = Lease(run_id, UUID(int=2), ends=float("inf"))
    flow = Flow(RunInfo(run_id, "bench.loop"), MemoryJournal(dict(entries)), lease)
    Context(flow, SyncDriver(flow, _Commit(entries), NO_THREADS)).loop("loop", turn, 0, history=HISTORY)


class _Commit:
    """Makes writes durable in a dict."""

    def __init__(self, entries: dict[str, Any]) -> None:
        from django_durable.store.receipts import Receipt

        self._entries = entries
        self._receipt = Receipt(is_held=True)

    def write(self, lease: Any, write: Any) -> Any:
        for path in write.forgotten:
            self._entries.pop(path, None)
        self._entries.update(write.entries)
        return self._receipt


if __name__ == "__main__":
    sys.exit(main())

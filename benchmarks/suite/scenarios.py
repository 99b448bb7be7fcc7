"""S0 to S4, S6 and S9: the same procedure for every system, sizes as in the goals.

A scenario is entered once for a system, with the workers that it needs, and measured several times in there: processes
that are just up, and the time that it takes to start them, are nobody's subject.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import quantiles

from .bench import BULK, TIMEOUT, Bench, Scenario
from .client import Missing, wait_until
from .meter import Meter
from .sample import FROM_RELEASE, Once, Sample
from .workers import Workers

AT_ONCE = 5
SELDOM = 0.04
"""Seconds between two looks at how many steps are done, while the end is far away."""
LATENCY_SECONDS = 4.0
"""For a system that polls each second three hundred runs would be five minutes: as many as come in this time have to
do."""


@contextmanager
def commits(bench: Bench, scenario: str) -> Iterator[Once]:
    """What S4 and S6 are held against, in their own minutes; asked of ``limits`` alone."""

    def once() -> Iterator[Sample]:
        yield _commits(f"{scenario}_commit_ms", bench, bench.sizes.sequential)

    yield once


def _commits(figure: str, bench: Bench, count: int) -> Sample:
    noise = bench.wait_until_quiet()
    meter = Meter(bench.stage, bench.client.pid)
    answer = bench.client.ask("commits", count=count)
    return Sample(figure, 1000 * answer.seconds / count, meter.cost(count), noise, count)


@contextmanager
def limits(bench: Bench) -> Iterator[Once]:
    """S0: what psycopg does with this database where nothing stands between; asked of ``limits`` alone."""

    def once() -> Iterator[Sample]:
        count = bench.sizes.enqueue
        yield _commits("commit_ms", bench, count)
        noise = bench.wait_until_quiet()
        meter, count = Meter(bench.stage, bench.client.pid), 10 * count
        answer = bench.client.ask("batched_inserts", count=count, batch=BULK)
        yield Sample("batched_insert", count / answer.seconds, meter.cost(count), noise, count)

    yield once


@contextmanager
def enqueue(bench: Bench) -> Iterator[Once]:
    """S1: one call a run, then the bulk door; no worker is there."""
    doors = (("S1_enqueue", "enqueue", {}), ("S1_bulk", "enqueue_many", {"batch": BULK}))

    def once() -> Iterator[Sample]:
        count = bench.sizes.enqueue
        for figure, call, more in doors:
            bench.client.ask("clear")
            noise = bench.wait_until_quiet()
            meter = Meter(bench.stage, bench.client.pid)
            try:
                answer = bench.client.ask(call, count=count, steps=1, **more)
            except Missing:
                continue
            yield Sample(figure, count / answer.seconds, meter.cost(count), noise, count)

    yield once


@contextmanager
def drain(bench: Bench, processes: int = 2) -> Iterator[Once]:
    """S2: one-step runs by two (or so many) worker processes, from the first outcome that is seen to the last."""
    with bench.workers(processes) as started:

        def once() -> Iterator[Sample]:
            count = bench.sizes.drain
            yield work_off("S2_drain", bench, started, "finished", count, 1, goal=count)

        yield once


@contextmanager
def steps(bench: Bench) -> Iterator[Once]:
    """S3: runs of ten no-op steps by one worker process, in steps a second."""
    with bench.workers(1) as started:
        counted = _steps_counted(bench)

        def once() -> Iterator[Sample]:
            runs, each = bench.sizes.steps_runs, bench.sizes.steps
            yield work_off("S3_steps", bench, started, counted, runs, each, goal=runs * each)

        yield once


@contextmanager
def sequential(bench: Bench) -> Iterator[Once]:
    """S4: one run of many steps, in milliseconds a step."""
    with bench.workers(1) as started:
        counted = _steps_counted(bench)

        def once() -> Iterator[Sample]:
            each = bench.sizes.sequential
            rate = work_off("S4_step_ms", bench, started, counted, 1, each, goal=each)
            cost = rate.cost | {FROM_RELEASE: 1000 / rate.cost[FROM_RELEASE]}
            yield replace(rate, value=1000 / rate.value, cost=cost)

        yield once


@contextmanager
def latency(bench: Bench) -> Iterator[Once]:
    """S6: single runs from start to result on an idle system, in milliseconds."""
    with bench.workers(1) as started:

        def once() -> Iterator[Sample]:
            noise = bench.wait_until_quiet(are_up=True)
            meter = Meter(bench.stage, bench.client.pid, started)
            found: list[float] = []
            ends = time.perf_counter() + LATENCY_SECONDS
            while len(found) < bench.sizes.latency and time.perf_counter() < ends:
                found += bench.client.ask("latency", count=min(AT_ONCE, bench.sizes.latency - len(found))).result
            cost, count = meter.cost(len(found)), len(found)
            # Of few the middle lies between two of them.
            cuts = quantiles(found, n=100, method="inclusive")
            yield Sample("S6_latency_p50_ms", cuts[49], cost, noise, count)
            yield Sample("S6_latency_p99_ms", cuts[98], cost, noise, count)

        yield once


@contextmanager
def mixed(bench: Bench) -> Iterator[Once]:
    """S9: one producer starts runs one by one while two worker processes drain."""
    with bench.workers(2) as started:

        def once() -> Iterator[Sample]:
            count = bench.sizes.mixed
            before = bench.client.count("finished")
            noise = bench.wait_until_quiet(are_up=True)
            meter = Meter(bench.stage, bench.client.pid, started)
            began = time.perf_counter()
            bench.client.ask("enqueue", count=count, steps=1)
            _, ended = wait_until(bench.client, "finished", before + count, timeout=TIMEOUT)
            cost = meter.cost(count)
            started.check()
            yield Sample("S9_mixed", count / (ended - began), cost, noise, count)

        yield once


SCENARIOS: dict[str, Scenario] = {
    "S0": limits,
    "S1": enqueue,
    "S2": drain,
    "S3": steps,
    "S4": sequential,
    "S6": latency,
    "S9": mixed,
}
OF_FLOOR: dict[str, Scenario] = {
    "S0": limits,
    "S1": enqueue,
    "S4": partial(commits, scenario="S4"),
    "S6": partial(commits, scenario="S6"),
}
"""What is measured of ``limits`` in a scenario that it has a part in."""


def _steps_counted(bench: Bench) -> str:
    """What can be watched growing while runs of several steps are under way."""
    try:
        bench.client.ask("steps_done")
    except Missing:
        return "finished"
    return "steps_done"


def work_off(
    figure: str,
    bench: Bench,
    started: Workers,
    counted: str,
    runs: int,
    each: int,
    *,
    goal: int,
    fill: Callable[[], object] | None = None,
    ended: str = "finished",
) -> Sample:
    """Operations a second between the first one seen and the last; beside what they cost, ``FROM_RELEASE``.

    Where only whole runs can be counted, or runs begin as they are started, from the instant at which work could begin.
    ``fill`` brings them in, ``ended`` counts what is to be ``runs`` more.
    """
    fill = fill or partial(bench.fill, runs, each)
    before = {call: bench.client.count(call) for call in {counted, ended}}
    if not bench.client.is_pushed:
        started.hold()
        fill()
        bench.analyse()
    noise = bench.wait_until_quiet(are_up=bench.client.is_pushed)
    meter = Meter(bench.stage, bench.client.pid, started)
    released = began = time.perf_counter()
    done = 0
    if bench.client.is_pushed:
        fill()
    else:
        started.let_go()
        if counted == "steps_done" or each == 1:
            seen, at = wait_until(bench.client, counted, before[counted] + 1, timeout=TIMEOUT, pause=0.001)
            # Where all of it was done before anybody looked, the start has to do.
            if seen - before[counted] < goal:
                done, began = seen - before[counted], at
    if counted != ended:
        # Steps tell how far it is: a few looks see the end soon. Of runs that end together nothing is seen before
        # that, and to ask for them all the time took a tenth of a core from what was measured.
        wait_until(bench.client, counted, before[counted] + goal, timeout=TIMEOUT, pause=SELDOM)
    there, at = wait_until(bench.client, ended, before[ended] + runs, timeout=TIMEOUT)
    # Where there is more than is waited for, some of it is done besides.
    goal += there - before[ended] - runs
    cost = meter.cost(goal) | {FROM_RELEASE: goal / (at - released)}
    started.check()
    return Sample(figure, (goal - done) / (at - began), cost, noise, goal)

"""The growth: one point of a curve is one scenario, named ``curve@x``, and so is its figure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from .bench import TIMEOUT, Bench
from .client import wait_until
from .sample import Once, Sample
from .scenarios import drain, work_off

PROCESSES = (1, 2, 4)
QUEUED = (1_000, 10_000, 100_000, 1_000_000)
DRAINED = 20_000
"""Of a longer queue so many are done, while the rest stands in the table."""
WARMING = 1_000
PAYLOADS = {1: 5_000, 10: 2_000, 100: 500}
"""Runs by kilobytes: so that each point writes some fifty megabytes three times at most."""
TEXTS_AT_ONCE = 50
JOURNALED = (10, 100, 1_000)
RESUMES = 100


@contextmanager
def by_workers(bench: Bench, *, processes: int) -> Iterator[Once]:
    """S2 with so many worker processes."""
    with drain(bench, processes) as measured:

        def once() -> Iterator[Sample]:
            for sample in measured():
                yield replace(sample, figure=f"drain_by_workers@{processes}")

        yield once


@contextmanager
def by_queued(bench: Bench, *, queued: int) -> Iterator[Once]:
    """S2 with so many runs in the queue, of which the first are drained."""
    count, drained = bench.part_of(queued), bench.part_of(min(queued, DRAINED))

    def once() -> Iterator[Sample]:
        # Each time anew: the workers end while there is work.
        with bench.workers(2) as started:
            before = bench.client.count("finished")
            bench.fill(bench.part_of(WARMING), 1)
            wait_until(bench.client, "finished", before + bench.part_of(WARMING), timeout=TIMEOUT)
            # Nobody sees them yet: the workers need not be held for as long as this takes.
            bench.client.ask("queue_up", count=count)
            show = partial(bench.client.ask, "show_queued")
            # A step is a run here, and its journal is short where the table of runs is long.
            figure = f"drain_by_queued@{count}"
            yield work_off(
                figure, bench, started, "steps_done", drained, 1, goal=drained, fill=show, ended="steps_done"
            )

    yield once


@contextmanager
def by_payload(bench: Bench, *, kilobytes: int) -> Iterator[Once]:
    """S2 with runs that take, journal and return a text of that size."""
    count = bench.part_of(PAYLOADS[kilobytes])
    with bench.workers(2) as started:
        fill = partial(bench.client.ask, "enqueue_texts", count=count, kilobytes=kilobytes, batch=TEXTS_AT_ONCE)

        def once() -> Iterator[Sample]:
            figure = f"drain_by_kilobytes@{kilobytes}"
            yield work_off(figure, bench, started, "finished", count, 1, goal=count, fill=fill)

        yield once


@contextmanager
def by_journal(bench: Bench, *, entries: int) -> Iterator[Once]:
    """A resume of a run that has journaled so many steps: what each adds to the replay, and the whole of it.

    Measured inside the client by the executor on the journal that a claim has loaded; the replay of a run without
    steps is taken off.
    """
    with bench.workers(1):
        empty, full = bench.client.ask("park", counts=[0, entries]).result
        wait_until(bench.client, "parked", 2, timeout=TIMEOUT, pause=0.05)

    def once() -> Iterator[Sample]:
        noise = bench.wait_until_quiet()
        _, least = bench.client.ask("resume", run_id=empty, times=bench.part_of(RESUMES)).result
        claim, replay = bench.client.ask("resume", run_id=full, times=bench.part_of(RESUMES)).result
        yield Sample(f"replay_us@{entries}", 1e6 * (replay - least) / entries, {}, noise, entries)
        yield Sample(f"resume_ms@{entries}", 1e3 * (claim + replay), {}, noise)

    yield once

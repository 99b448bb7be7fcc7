"""S10: a disk on which a commit takes three milliseconds, as on many a rented machine.

PostgreSQL waits that long before each flush (``commit_delay``), for nobody in particular (``commit_siblings``). Both
are taken up while it runs: so the same workers are measured on the fast disk and on the slow one by turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from .bench import Bench, Scenario
from .sample import Once, Sample
from .stage import Stage

SETTINGS = {"commit_delay": "3000", "commit_siblings": "0"}
SLOW = 3.0
"""Milliseconds of a commit, at least."""
TAKES_EFFECT_WITHIN = 30.0
PROBES = 20


@contextmanager
def fast_and_slow(bench: Bench, *, scenario: Scenario) -> Iterator[Once]:
    with scenario(bench) as measured:

        def once() -> Iterator[Sample]:
            yield _commit(bench.stage, "S10_fast_commit_ms")
            yield from (sample.as_of("S10_fast") for sample in measured())
            with slow_disk(bench.stage):
                yield _commit(bench.stage, "S10_slow_commit_ms")
                yield from (sample.as_of("S10_slow") for sample in measured())

        yield once


@contextmanager
def slow_disk(stage: Stage) -> Iterator[None]:
    """Every session of the server waits at its commits from here on. Raises TimeoutError where a probe does not."""
    with stage.altered(SETTINGS):
        ends = time.monotonic() + TAKES_EFFECT_WITHIN
        while commit_ms(stage) < SLOW:
            if time.monotonic() > ends:
                raise TimeoutError(f"a commit takes less than {SLOW} ms")
        yield


def commit_ms(stage: Stage) -> float:
    """The median of a few commits that have to be flushed, in milliseconds."""
    with stage.connect() as connection:
        return median(_seconds(lambda: connection.execute(PROBE)) for _ in range(PROBES)) * 1000


PROBE = "SELECT pg_logical_emit_message(true, 'bench', 'probe')"
"""Writes to the log and to no table; as it is transactional, its commit waits for the flush."""


def _commit(stage: Stage, figure: str) -> Sample:
    return Sample(figure, commit_ms(stage), {}, 0.0, PROBES)


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

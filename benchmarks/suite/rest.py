"""What ``make bench-all`` measures besides: S5, S7, S8, S10, and how this project grows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from . import flat, growth, scenarios
from .bench import Bench, Scenario
from .history import with_and_without
from .naps import naps
from .repeating import FIRST, LEAST, LONG_SECONDS, DeadRows, first
from .sample import Sample
from .sleepers import sleepers
from .slow_disk import fast_and_slow


@dataclass(frozen=True)
class Rest:
    """A scenario, and the variants in which it says something new."""

    enter: Scenario
    variants: tuple[str, ...] = ("sync",)
    times: int = 1
    """How often each repetition is made. What takes a tenth of a second is measured in more moments of the machine;
    peers take seconds for it."""
    peers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Who else is measured, and in which variants."""
    deletes: bool = False
    """Whether rows are deleted before it, and would be taken for what it has left behind."""


BOTH_KINDS, BOTH_QUEUES = ("sync", "async"), ("sync", "sync-database")
ALL_BUT_ASYNC_DATABASE = (*BOTH_KINDS, "sync-database")
SLOWLY = (*BOTH_KINDS, "sync-threads", "sync-database", "async-database")
"""Who waits for a commit lends its core to others: more of them at a time are what a slow disk is answered with."""
ENGINES = {"dbos": ("sync", "async"), "absurd": ("sync",)}
"""Those that commit to the same PostgreSQL what they have done."""
WITH_TABLES = {**ENGINES, "procrastinate": ("async",), "django_tasks": ("sync",)}
"""Those that have their finished runs in tables, where they can be copied."""
ONE_DOOR = {"dbos": ("sync",)}
"""Who starts coroutines as it starts functions."""
WITH_SLEEP = {
    "dbos": ("async-direct",),
    "absurd": ("sync",),
    "restate": ("async",),
    "procrastinate": ("async",),
    "django_tasks": ("sync",),
    "celery": ("best",),
    "dramatiq": ("best",),
}
WITH_CHILDREN = {
    "dbos": ("sync",),
    "absurd": ("sync-children",),
    "restate": ("async",),
    "celery": ("best",),
    "dramatiq": ("best",),
}
WITH_STEPS = {"dbos": ("sync",), "absurd": ("sync",), "restate": ("async",)}

REST: dict[str, Rest] = {
    "S5-S1": Rest(
        partial(with_and_without, scenario=scenarios.enqueue), BOTH_QUEUES, peers=WITH_TABLES | ONE_DOOR, deletes=True
    ),
    "S5-S2": Rest(
        partial(with_and_without, scenario=scenarios.drain), ALL_BUT_ASYNC_DATABASE, peers=WITH_TABLES, deletes=True
    ),
    "S7": Rest(sleepers, ALL_BUT_ASYNC_DATABASE),
    "S7-beside": Rest(naps, BOTH_KINDS, peers=WITH_SLEEP),
    "S8-fan-out": Rest(flat.fan_out, BOTH_QUEUES, peers=WITH_CHILDREN),
    "S8-loop": Rest(flat.loop),
    "S8-worker-loop": Rest(flat.worker_loop, ("sync", "sync-plain"), times=2, peers=WITH_STEPS),
    "S10-S2": Rest(partial(fast_and_slow, scenario=scenarios.drain), SLOWLY, peers=ENGINES),
    "S10-S3": Rest(partial(fast_and_slow, scenario=scenarios.steps), SLOWLY, times=3, peers=ENGINES),
    "S10-S4": Rest(partial(fast_and_slow, scenario=scenarios.sequential), BOTH_KINDS),
    **{f"workers@{n}": Rest(partial(growth.by_workers, processes=n), BOTH_KINDS) for n in growth.PROCESSES},
    **{f"queued@{n}": Rest(partial(growth.by_queued, queued=n), BOTH_QUEUES) for n in growth.QUEUED},
    **{f"kilobytes@{n}": Rest(partial(growth.by_payload, kilobytes=n)) for n in growth.PAYLOADS},
    **{f"journal@{n}": Rest(partial(growth.by_journal, entries=n)) for n in growth.JOURNALED},
}


def measured(bench: Bench, scenario: str, repetitions: int) -> Iterator[list[Sample]]:
    """The samples of each repetition, the first of which, since it does not count, is a smaller one and made once.
    Peers that take long have one less, as in the comparison.

    Raises Missing where the system has no such thing.
    """
    rest = REST[scenario]
    dead = DeadRows(bench)
    last: list[Sample] = []
    part, sizes = bench.part, bench.sizes
    with rest.enter(bench) as once:
        began, waited = time.perf_counter(), bench.waited
        for repetition in range(repetitions):
            took = time.perf_counter() - began - (bench.waited - waited)
            if not bench.is_own and repetition >= LEAST and took > LONG_SECONDS:
                break
            if last:
                yield last
            is_full = repetition or repetitions == 1
            bench.part, bench.sizes = (part, sizes) if is_full else (part * FIRST, first(sizes))
            last = [sample for _ in range(rest.times if repetition and bench.is_own else 1) for sample in once()]
            dead.left_by(last)
    if not rest.deletes:
        dead.tell(last)
    yield last

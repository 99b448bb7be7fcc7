"""What ``make bench-all`` measures besides: S5, S7, S8, S10 and the growth; but for S10, of this project alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from . import flat, growth, scenarios
from .history import with_and_without
from .scenarios import Bench, DeadRows, Once, Sample
from .sleepers import sleepers
from .slow_disk import fast_and_slow


@dataclass(frozen=True)
class Rest:
    """A scenario, and the variants in which it says something new."""

    enter: Callable[[Bench], AbstractContextManager[Once]]
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

REST: dict[str, Rest] = {
    "S5-S1": Rest(partial(with_and_without, scenario=scenarios.enqueue), BOTH_QUEUES, deletes=True),
    "S5-S2": Rest(partial(with_and_without, scenario=scenarios.drain), ALL_BUT_ASYNC_DATABASE, deletes=True),
    "S7": Rest(sleepers, ALL_BUT_ASYNC_DATABASE),
    "S8-fan-out": Rest(flat.fan_out, BOTH_QUEUES),
    "S8-loop": Rest(flat.loop),
    "S8-worker-loop": Rest(flat.worker_loop, times=2),
    "S10-S2": Rest(partial(fast_and_slow, scenario=scenarios.drain), SLOWLY, peers=ENGINES),
    "S10-S3": Rest(partial(fast_and_slow, scenario=scenarios.steps), SLOWLY, times=3, peers=ENGINES),
    "S10-S4": Rest(partial(fast_and_slow, scenario=scenarios.sequential), BOTH_KINDS),
    **{f"workers@{n}": Rest(partial(growth.by_workers, processes=n), BOTH_KINDS) for n in growth.PROCESSES},
    **{f"queued@{n}": Rest(partial(growth.by_queued, queued=n), BOTH_QUEUES) for n in growth.QUEUED},
    **{f"kilobytes@{n}": Rest(partial(growth.by_payload, kilobytes=n)) for n in growth.PAYLOADS},
    **{f"journal@{n}": Rest(partial(growth.by_journal, entries=n)) for n in growth.JOURNALED},
}


def measured(bench: Bench, scenario: str, repetitions: int) -> Iterator[list[Sample]]:
    """The samples of each repetition, the first of which, since it does not count, is made once."""
    rest = REST[scenario]
    dead = DeadRows(bench)
    last: list[Sample] = []
    with rest.enter(bench) as once:
        for repetition in range(repetitions):
            if last:
                yield last
            last = [sample for _ in range(rest.times if repetition and bench.is_own else 1) for sample in once()]
            dead.left_by(last)
    if not rest.deletes:
        dead.tell(last)
    yield last

"""Peace after a round: everything is healed, and has to come to its end by itself. What did not, in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from redis import RedisError

from django_durable.models import Run
from django_durable.queues.current import redis_queue
from tests.app.workflows import doubling
from tests.chaos.afterwards import SILENT, silent, violated
from tests.chaos.clockwork import Clockwork
from tests.chaos.fleet import Fleet, queue_of
from tests.processes import wait_until
from tests.servers import Guarded

CLIENT_SECONDS = 60.0
DRAIN_SECONDS, QUIET_SECONDS, LONGEST_DRAIN_SECONDS = 120.0, 30.0, 600.0
"""Within which every run has to be over once nothing is hit any more; after a longer round within the time of that:
what is beyond two cores beside the faults waits in line, as long as they last. On a machine that is slower than that
still, as long as fewer are left every half minute: a run that is stuck is so when all others are over."""

SHARED = "default"
"""The queue that every worker serves."""
TAIL = 5
TAIL_SECONDS = 5.0
STOP_SECONDS = 40.0
SLICE = 1_000
"""Ids of a list that are read at a time."""


def calm_down(
    clients: list[Guarded], folder: Path, fleet: Fleet, clockwork: Clockwork | None, drain_seconds: float
) -> list[str]:
    """Wait for each client to come to its end, then for every run, then for everybody."""
    (folder / "stop").touch()
    wrong = in_time("the clients to end", CLIENT_SECONDS, lambda: not any(client.running for client in clients))
    if clockwork is not None:
        wrong += said(clockwork.stop)
    wrong += said(lambda: wait_for_none(Run.objects.live().count, drain_seconds))
    if clockwork is not None:
        wrong += clockwork.wrong()
    wrong += last_runs(list(fleet.workers))
    wrong += left_in_lists([SHARED, *map(queue_of, fleet.workers)])
    wrong += unheard(fleet)
    wrong += violated()
    for client in clients:
        client.kill()
    for log in folder.glob("client-*.log"):
        if "Traceback" in log.read_text():
            wrong.append(f"a client stumbled: see {log.name}")
    return wrong + fleet.stop(STOP_SECONDS)


def last_runs(places: list[int]) -> list[str]:
    """After all that has happened, each worker does new work at once."""
    runs = [doubling.using(queue=queue_of(place)).enqueue(place) for place in places for _ in range(TAIL)]
    done = Run.objects.filter(pk__in=[run.id for run in runs], status="succeeded")
    return in_time("the last runs of each worker to succeed", TAIL_SECONDS, lambda: done.count() == len(runs))


def left_in_lists(queues: Sequence[str], seconds: float = QUIET_SECONDS) -> list[str]:
    """I21, once every run is over: what the lists of queues that are served hold all the same. Who has room takes ids
    out, also those that lead to no claim any more."""

    def now() -> list[str]:
        try:
            return list(_lengths(queues))
        except (RedisError, OSError) as error:
            return [f"I21: Redis could not be asked: {error}"]

    late = in_time("the lists in Redis to be empty", seconds, lambda: not now())
    return now() if late else []


def _lengths(queues: Sequence[str]) -> Iterator[str]:
    with closing(redis_queue()) as lists:
        for queue in queues:
            if length := sum(map(len, lists.peek(queue, SLICE))):
                yield f"I21: the lists of the queue {queue!r} hold {length:,} ids, and nobody takes them out"


def unheard(fleet: Fleet) -> list[str]:
    """Who is silent. Whom a busy machine has held up for a moment is heard of in the next one."""

    def now() -> list[str]:
        return list(silent({place: fleet.processes(place) for place in fleet.workers}))

    late = in_time("every worker to be heard of", SILENT.total_seconds(), lambda: not now())
    return now() if late else []


def wait_for_none(
    count: Callable[[], int], seconds: float, quiet: float = QUIET_SECONDS, most: float = LONGEST_DRAIN_SECONDS
) -> None:
    """Until ``count`` is 0: for ``seconds``, and beyond that, up to ``most``, as long as it falls each ``quiet``."""
    began = fell = time.monotonic()
    fewest = left = count()
    while left:
        now = time.monotonic()
        if left < fewest:
            fewest, fell = left, now
        if now > began + seconds and (now > fell + quiet or now > began + most):
            raise AssertionError(f"Waited {now - began:.0f} s for every run to be over, and {left} are not.")
        time.sleep(min(0.1, quiet / 10))
        left = count()


def in_time(what: str, seconds: float, condition: Callable[[], bool]) -> list[str]:
    return said(lambda: wait_until(condition, seconds, what))


def said(waits: Callable[[], object]) -> list[str]:
    """In words, what did not come in time."""
    try:
        waits()
    except AssertionError as error:
        return [str(error)]
    return []

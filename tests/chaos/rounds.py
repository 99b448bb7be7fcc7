"""One round of chaos: load and faults, then peace, then the checks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from redis import RedisError

from django_durable.models import Run
from django_durable.queues.current import redis_queue
from tests import processes
from tests.app.workflows import doubling
from tests.chaos.afterwards import SILENT, ServerLog, silent, violated
from tests.chaos.checker import told
from tests.chaos.clockwork import Clockwork
from tests.chaos.collecting import collect
from tests.chaos.evidence import Violation
from tests.chaos.fleet import Fleet, queue_of
from tests.chaos.history import begin_history, end_history
from tests.chaos.mixture import MIXTURES
from tests.chaos.nemesis import Nemesis, Targets
from tests.chaos.proxy import Proxy
from tests.chaos.released.unpacking import environment, unpack
from tests.chaos.telling import save
from tests.chaos.totals import Totals
from tests.chaos.watching import Watch
from tests.processes import wait_until
from tests.servers import Guarded, Servers

CHECKOUT = Path(__file__).resolve().parents[2]
CLIENT_SECONDS = 60.0
DRAIN_SECONDS, QUIET_SECONDS, LONGEST_DRAIN_SECONDS = 120.0, 30.0, 600.0
"""Within which every run has to be over once nothing is hit any more; after a longer round within the time of that:
what is beyond two cores beside the faults waits in line, as long as they last. On a machine that is slower than that
still, as long as fewer are left every half minute: a run that is stuck is so when all others are over."""
OLD_SHARE = 0.25
"""The part of the runs that a client of the released version starts, where its workers are about."""

SHARED = "default"
"""The queue that every worker serves."""
TAIL = 5
TAIL_SECONDS = 5.0
STOP_SECONDS = 40.0
SLICE = 1_000
"""Ids of a list that are read at a time."""


def play(servers: Servers, seed: str, seconds: float, workers: int, rate: float, totals: Totals) -> None:
    """Add what the round comes to. ``totals`` says how many of the workers are of the released version."""
    assert servers.postgres is not None and servers.redis is not None
    empty(servers)
    begin_history()
    log = ServerLog(servers.postgres.log)
    # Released workers may be the ones that fire, and what they did then cannot be mended any more.
    clockwork = None if totals.old else Clockwork()
    with Proxy(servers.postgres.folder / ".s.PGSQL.5432") as postgres, Proxy(servers.redis.socket) as redis:
        env = through(postgres, redis)
        old_env = {**env, **environment(unpack(servers.folder))} if totals.old else {}
        fleet = Fleet(workers, env, [old_env] * totals.old)
        start = fleet.wait_for_start()
        clients = start_clients(servers.folder, seed, rate, env, old_env)
        watch = Watch(servers.folder / "witness")
        nemesis = Nemesis(seed, Targets(fleet, servers.postgres, servers.redis, postgres, redis, watch), start)
        connection.close()
        began = time.monotonic()
        nemesis.run(seconds)
        lasted = time.monotonic() - began
        wrong = calm_down(clients, servers.folder, fleet, clockwork, max(seconds, DRAIN_SECONDS))
        wrong += log.deadlocks()
    evidence = collect(servers.folder, nemesis.faults, fleet.old_logs)
    save(evidence, servers.folder)
    story = told(evidence)
    totals.add(story, lasted, start)
    totals.fires += len(clockwork.fires) if clockwork else 0
    totals.violations += [Violation("liveness", "", text) for text in wrong]
    processes.kill_all()
    print(f"{seed}: {len(story.runs):,} runs and {len(nemesis.faults)} faults in {lasted:.0f} s", flush=True)


def empty(servers: Servers) -> None:
    """No run, no id in Redis, and no line of a round before."""
    end_history()
    call_command("flush", verbosity=0, interactive=False)
    assert servers.redis is not None
    servers.redis.flush()
    for name in ("witness", "client", "stop", *(f"client-{mixture}.log" for mixture in MIXTURES)):
        (servers.folder / name).unlink(missing_ok=True)


def through(postgres: Proxy, redis: Proxy) -> dict[str, str]:
    """The environment of those who come through the proxies."""
    # Nothing to ask before the first word: a proxy speaks no TLS.
    plain = "?sslmode=disable&gssencmode=disable"
    return {
        "DURABLE_TEST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{postgres.port}/postgres{plain}",
        "DURABLE_TEST_REDIS_URL": f"redis://127.0.0.1:{redis.port}/0",
        "DJANGO_SETTINGS_MODULE": "tests.chaos.settings",
    }


def start_clients(folder: Path, seed: str, rate: float, env: dict[str, str], old_env: dict[str, str]) -> list[Guarded]:
    """One, or one of each release. No run that the old code starts has what it does not know."""
    if not old_env:
        return [start_client(folder, seed, rate, env)]
    return [
        start_client(folder, seed, rate * (1 - OLD_SHARE), env, "both"),
        start_client(folder, f"{seed}-old", rate * OLD_SHARE, old_env, "plain"),
    ]


def start_client(folder: Path, seed: str, rate: float, env: dict[str, str], mixture: str = "newest") -> Guarded:
    command = [sys.executable, "-m", "tests.chaos.client"]
    options = ["--seed", seed, "--rate", str(rate), "--stop", str(folder / "stop"), "--mixture", mixture]
    log = folder / f"client-{mixture}.log"
    return Guarded([*command, *options], log=log, env={**os.environ, **env}, cwd=CHECKOUT)


def calm_down(
    clients: list[Guarded], folder: Path, fleet: Fleet, clockwork: Clockwork | None, drain_seconds: float
) -> list[str]:
    """Everything is healed: each client comes to its end, then every run, then everybody. What did not, in words."""
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

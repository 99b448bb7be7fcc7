"""What goes wrong, when and where: drawn from a seed, and noted with the instants at which it was done."""

from __future__ import annotations

import heapq
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import psycopg
import redis

from tests.chaos.evidence import Fault
from tests.chaos.faults import DEADLY
from tests.chaos.fleet import Fleet
from tests.chaos.proxy import Proxy
from tests.chaos.watching import Watch
from tests.processes import FAST
from tests.servers import PostgresServer, RedisServer

PER_MINUTE = {
    "kill": 10,
    "kill_group": 3,
    "drain": 3,
    "freeze": 6,
    "restart_postgres": 4,
    "terminate_backends": 10,
    "cut_postgres": 4,
    "freeze_postgres": 4,
    "delay_postgres": 3,
    "cut_after": 5,
    "kill_redis": 3,
    "flush_redis": 6,
    "freeze_redis": 2,
    "cut_redis": 2,
}
"""Together some more than the sixty that have to come: what finds nothing to hit does not count, and a minute lasts
until what was frozen last has thawed."""

AGAIN = 0.2
"""Seconds after which a fault is tried once more whose target is not there: a server that is away already."""

TRIES = 25

LOOK = 0.03
"""Seconds between two looks at whether a frozen process has an heir."""

LONGEST_START = 20.0
"""Seconds beyond which nobody waits for that."""

LEASE = FAST["LEASE_SECONDS"]


@dataclass(slots=True)
class Targets:
    fleet: Fleet
    postgres: PostgresServer
    redis: RedisServer
    postgres_proxy: Proxy
    redis_proxy: Proxy
    watch: Watch


class Busy(NamedTuple):
    """A process in the middle of a step; the place of its worker, and all processes there."""

    pid: int
    place: int
    beside: tuple[int, ...]


class Nemesis:
    """`run` spreads the faults over the time that it is given; `faults` are those that have been done.

    ``start``: the seconds that a worker takes to begin. What is frozen thaws when somebody else has begun its step, and
    sometimes before that: the heir needs a process of its own, and a zombie that finds nobody in its place proves
    little.
    """

    def __init__(self, seed: str, targets: Targets, start: float) -> None:
        self._frozen_seconds = LEASE + 0.3, LEASE + 2 + min(4 * start, LONGEST_START)
        self._chance = random.Random(seed)
        self._targets = targets
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._beside = ThreadPoolExecutor(3)
        self._restarts: list[Future[None]] = []
        self._away: set[str] = set()
        self.faults: list[Fault] = []

    def run(self, seconds: float) -> None:
        """Do all of them, and heal at the end."""
        begins = time.monotonic()
        for offset, kind in plan(self._chance, seconds):
            self._at(begins + offset, self._doing(kind))
        while self._due:
            due, _, call = heapq.heappop(self._due)
            time.sleep(max(0.0, due - time.monotonic()))
            call()
        for restart in self._restarts:
            restart.result()
        self._beside.shutdown()
        self._targets.fleet.heal()

    def _at(self, due: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (due, next(self._numbers), call))

    def _doing(self, kind: str, tries: int = TRIES) -> Callable[[], None]:
        def do() -> None:
            if not getattr(self, f"_{kind}")() and tries > 1:
                self._at(time.monotonic() + AGAIN, self._doing(kind, tries - 1))

        return do

    def _note(self, kind: str, at: float, pids: tuple[int, ...] = ()) -> bool:
        self.faults.append(Fault(kind, at, time.monotonic(), pids))
        for pid in pids if kind in DEADLY else ():
            self._targets.watch.forget(pid)
        return True

    # --- processes -----------------------------------------------------------------------------

    def _kill(self) -> bool:
        if (busy := self._choose_busy()) is None:
            return False
        at = time.monotonic()
        try:
            os.kill(busy.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return self._note("kill", at, (busy.pid,))

    def _choose_busy(self) -> Busy | None:
        """A process that is in the middle of a step. Those that only begin are left alone: a worker that is killed at
        each start does nothing that could be hit."""
        fleet = self._targets.fleet
        processes = {place: tuple(fleet.processes(place)) for place in fleet.free}
        # Last, since to find the processes takes longer than many a step.
        busy = self._targets.watch.busy()
        found = [Busy(pid, place, pids) for place, pids in processes.items() for pid in pids if pid in busy]
        return self._chance.choice(found) if found else None

    def _kill_group(self) -> bool:
        return self._end("kill_group", self._targets.fleet.kill_group)

    def _drain(self) -> bool:
        return self._end("drain", self._targets.fleet.drain)

    def _end(self, kind: str, end: Callable[[int], None]) -> bool:
        if (busy := self._choose_busy()) is None:
            return False
        at = time.monotonic()
        end(busy.place)
        return self._note(kind, at, busy.beside)

    def _freeze(self) -> bool:
        if (busy := self._choose_busy()) is None:
            return False
        fleet, at = self._targets.fleet, time.monotonic()
        fleet.freeze(busy.place)
        latest = at + self._chance.uniform(*self._frozen_seconds)

        def look() -> None:
            if time.monotonic() < latest and not self._targets.watch.have_heirs(busy.beside):
                self._at(time.monotonic() + LOOK, look)
                return
            fleet.thaw(busy.place)
            self._note("freeze", at, busy.beside)

        self._at(at + LEASE, look)
        return True

    # --- PostgreSQL ----------------------------------------------------------------------------

    def _restart_postgres(self) -> bool:
        return self._beside_of("postgres", "restart_postgres", self._targets.postgres.restart)

    def _terminate_backends(self) -> bool:
        if "postgres" in self._away:
            return False
        at = time.monotonic()
        try:
            ended = terminate_backends(self._targets.postgres.url, self._chance.randint(1, 6), self._chance.random())
        except psycopg.OperationalError:
            return False
        return ended > 0 and self._note("terminate_backends", at)

    def _cut_postgres(self) -> bool:
        at = time.monotonic()
        return self._targets.postgres_proxy.cut() > 0 and self._note("cut_postgres", at)

    def _cut_after(self) -> bool:
        # Noted when it has come to a cut, which it does not where too few answers come.
        self._targets.postgres_proxy.cut_after(
            self._chance.randint(1, 20_000), lambda: self._note("cut_after", time.monotonic())
        )
        return True

    def _freeze_postgres(self) -> bool:
        return self._freeze_proxy("freeze_postgres", self._targets.postgres_proxy, self._chance.uniform(0.3, 2.6))

    def _delay_postgres(self) -> bool:
        proxy, at = self._targets.postgres_proxy, time.monotonic()
        if proxy.is_slow:
            return False
        proxy.delay(self._chance.uniform(0.005, 0.05))

        def end() -> None:
            if proxy.delay(0.0) > 0:
                self._note("delay_postgres", at)

        self._at(at + self._chance.uniform(0.5, 1.5), end)
        return True

    # --- Redis ---------------------------------------------------------------------------------

    def _kill_redis(self) -> bool:
        server = self._targets.redis

        def restart() -> None:
            server.kill()
            server.start()

        return self._beside_of("redis", "kill_redis", restart)

    def _flush_redis(self) -> bool:
        at = time.monotonic()
        if "redis" in self._away:
            return False
        try:
            self._targets.redis.flush()
        except redis.RedisError:
            return False
        return self._note("flush_redis", at)

    def _freeze_redis(self) -> bool:
        return self._freeze_proxy("freeze_redis", self._targets.redis_proxy, self._chance.uniform(0.5, 3.0))

    def _cut_redis(self) -> bool:
        at = time.monotonic()
        return self._targets.redis_proxy.cut() > 0 and self._note("cut_redis", at)

    # --- what takes its time -------------------------------------------------------------------

    def _freeze_proxy(self, kind: str, proxy: Proxy, seconds: float) -> bool:
        if proxy.is_frozen:
            return False
        at = time.monotonic()
        proxy.freeze()

        def thaw() -> None:
            proxy.thaw()
            self._note(kind, at)

        self._at(at + seconds, thaw)
        return True

    def _beside_of(self, server: str, kind: str, restart: Callable[[], None]) -> bool:
        if server in self._away:
            return False
        self._away.add(server)
        at = time.monotonic()

        def do() -> None:
            restart()
            self._note(kind, at)
            self._away.discard(server)

        self._restarts.append(self._beside.submit(do))
        return True


def plan(chance: random.Random, seconds: float) -> list[tuple[float, str]]:
    """When what is to be done, in seconds from the beginning."""
    minute = [kind for kind, times in PER_MINUTE.items() for _ in range(times)]
    count = round(len(minute) * seconds / 60)
    kinds = [kind for _ in range(0, count, len(minute)) for kind in chance.sample(minute, len(minute))][:count]
    gap = seconds / max(1, count)
    return [((number + chance.random()) * gap, kind) for number, kind in enumerate(kinds)]


def terminate_backends(url: str, most: int, seed: float) -> int:
    """End so many connections of others, whichever; how many that were."""
    with psycopg.connect(url, autocommit=True, connect_timeout=2) as connection:
        connection.execute("SELECT setseed(%s)", [seed])
        row = connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT %s) AS chosen",
            [most],
        ).fetchone()
    return row[0] if row else 0

"""Lanes on one backend: its servers, a database for each lane, and the tasks that they take from one list."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from tests.servers import servers_for

BACKENDS = {"postgres": "postgres-redis", "sqlite": "sqlite"}
KEPT_SECONDS = 3600
"""How long Django's connections are kept: to open one takes as long as half a case."""

Task = tuple[str, list[str], int | None, bool]
"""A scenario, actions, the one point (None: all), and whether those too that repeat others."""
Told = tuple[str, int, int, float, list[str]]
"""Of a task: scenario, points, cases, seconds, what failed."""


@dataclass
class Count:
    """What was enumerated of one scenario."""

    points: int = 0
    cases: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)


def enumerate_on(
    backend: str, tasks: Sequence[Task], lanes: int, tell: Callable[[str, Count], None]
) -> dict[str, Count]:
    """Do all tasks, side by side on so many lanes; ``tell`` of each scenario once all of its tasks are done."""
    counts: dict[str, Count] = {}
    with prepared(backend, lanes) as folder:
        context = multiprocessing.get_context("fork")
        # Neither has a thread in this process, which forks.
        waiting, pipes = context.SimpleQueue(), [context.Pipe(duplex=False) for _ in range(lanes)]
        for task in [*tasks, *[None] * lanes]:
            waiting.put(task)
        workers = [
            context.Process(target=_serve, args=(number, backend, folder, waiting, sending), daemon=True)
            for number, (_, sending) in enumerate(pipes)
        ]
        for worker in workers:
            worker.start()
        for _, sending in pipes:
            sending.close()
        left = {name: sum(task[0] == name for task in tasks) for name, *_ in tasks}
        for name, points, cases, seconds, failed in _told([receiving for receiving, _ in pipes], len(tasks)):
            count = counts.setdefault(name, Count())
            count.points = max(count.points, points)
            count.cases += cases
            count.seconds += seconds
            count.failed += failed
            left[name] -= 1
            if not left[name]:
                tell(name, count)
        for worker in workers:
            worker.join()
    return counts


def _told(pipes: list[Connection], tasks: int) -> Iterator[Told]:
    """What the lanes tell, task by task. Raises EOFError where one has died: it has said why."""
    while tasks:
        for ready in wait(pipes):
            pipe = cast(Connection, ready)
            try:
                yield pipe.recv()
            except EOFError:
                pipes.remove(pipe)
                continue
            tasks -= 1
        if tasks and not pipes:
            raise EOFError("the lanes have ended before their tasks")


@contextmanager
def prepared(backend: str, lanes: int) -> Iterator[Path]:
    """The servers, Django, and a database for each lane."""
    with servers_for(BACKENDS[backend]) as servers:
        os.environ |= {**servers.environment, "DJANGO_SETTINGS_MODULE": "tests.settings"}
        import django

        django.setup()
        logging.basicConfig(level=logging.WARNING, format="%(name)s %(levelname)s %(message)s")
        # So that there are lines of a log to write, as in a worker.
        logging.getLogger("django_durable.runs").setLevel(logging.INFO)
        from django.db import connection

        connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        # What SQLite's log still holds is then in the file that is copied.
        connection.close()
        for number in range(lanes):
            connection.creation.clone_test_db(str(number), verbosity=0)
        connection.close()
        yield servers.folder


def _serve(number: int, backend: str, folder: Path, waiting: Any, done: Connection) -> None:
    from tests.faults.enumerating import enumerated
    from tests.faults.kinds import Action
    from tests.faults.lane import Lane

    take_database(number, is_postgres=backend == "postgres")
    own = folder / f"lane-{number}"
    own.mkdir()
    with Lane(own) as lane:
        while (task := waiting.get()) is not None:
            scenario, actions, only, with_repeats = task
            began = time.monotonic()
            chosen = [Action(one) for one in actions]
            reports = list(enumerated(lane, scenario, chosen, only, with_repeats=with_repeats))
            failed = [report.told(backend) for report in reports if report.problems]
            done.send((scenario, len(reports[0].points), len(reports), time.monotonic() - began, failed))


def take_database(number: int, *, is_postgres: bool) -> None:
    """Have this process use the lane's own database, and its own of Redis."""
    from django.conf import settings
    from django.core.cache import caches
    from django.db import connection, connections

    name = connection.creation.get_test_db_clone_settings(str(number))["NAME"]
    for known in (connections.settings["default"], connection.settings_dict):
        known["NAME"] = name
        known["CONN_MAX_AGE"] = KEPT_SECONDS
    if is_postgres:
        cache: dict[str, Any] = settings.CACHES["default"]
        cache["LOCATION"] = cache["LOCATION"].replace("db=0", f"db={number + 1}")
        # One that was made before the fork keeps to the old address, and lanes would empty each other's lists.
        caches["default"].close()
        del caches["default"]

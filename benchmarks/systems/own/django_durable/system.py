"""This project: ``def`` workflows at the worker's default concurrency, ``async def`` ones two hundred at a time.

A variant's second word is its queue, none means Redis; or ``threads``: ``def`` workflows, as many at a time as
docs/performance.md recommends where steps take next to no time; or ``pinned``: so many, each process pinned to a CPU;
or ``plain``: a long loop is one of Python's, and not ``ctx.loop``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, NoReturn

from counts import Counts
from more import More
from protocol import System, serve

CONCURRENCY = {"async": "200", "async-database": "200", "sync-threads": "128", "sync-pinned": "128"}
"""As docs/performance.md recommends for steps that do nothing; of the others it is the worker's default."""


class DjangoDurable(More, System):
    variants = ("sync", "async", "sync-database", "async-database")
    doors = ("sync", "sync-database")
    drains = ("sync", "sync-threads", "sync-pinned", "async", "sync-database", "async-database")

    def __init__(self) -> None:
        from tests.servers import database_settings

        self.is_async = self.variant.startswith("async")
        # As docs/performance.md recommends where no old PgBouncer stands between.
        os.environ["BENCH_DURABLE"] = json.dumps({"PREPARED_STATEMENTS": True})
        os.environ["BENCH_QUEUE"] = "database" if self.variant.endswith("-database") else "redis"
        os.environ["BENCH_DATABASE"] = json.dumps(database_settings(os.environ["BENCH_POSTGRES"]))
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"

    def prepare(self) -> None:
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)

    def connect(self) -> None:
        import django

        django.setup()
        from benchmarks.project import workflows as own

        of_functions, of_coroutines = (
            (own.one_step, own.steps, own.nap),
            (own.one_step_async, own.steps_async, own.nap_async),
        )
        self.one_step, self.steps, self.naps = of_coroutines if self.is_async else of_functions

    def workflow(self, steps: int) -> Any:
        """As one would write it: a run of one step has no loop."""
        return self.one_step if steps == 1 else self.steps

    def clear(self) -> None:
        from benchmarks import rows
        from benchmarks.quick import empty

        rows.forget_queue()
        rows.settle(after=self.after) if self.after else empty()
        self.counts = Counts(self.after)

    def enqueue(self, count: int, steps: int) -> None:
        workflow = self.workflow(steps)
        for _ in range(count):
            workflow.enqueue(count=steps)

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        for first in range(0, count, batch):
            self.workflow(steps).enqueue_many([{"count": steps}] * min(batch, count - first))

    def finished(self) -> int:
        return self.counts.finished()

    def steps_done(self) -> int:
        return self.counts.steps()

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            self.one_step.enqueue(count=1).result(timeout=30)
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def worker_commands(self, processes: int) -> list[list[str]]:
        return [[sys.executable, __file__, "worker", str(processes)]]

    def become_worker(self, processes: str) -> NoReturn:
        command = [sys.executable, "-m", "django", "durable_worker", "--verbosity", "0", "--processes", processes]
        # It would be started in the midst of what is measured, and nobody dies here.
        command.append("--no-standby")
        if concurrency := CONCURRENCY.get(self.variant):
            command += ["--concurrency", concurrency]
        if self.variant == "sync-pinned":
            command.append("--cpu-affinity")
        os.execv(sys.executable, command)


system = DjangoDurable()
if sys.argv[1] == "worker":
    system.become_worker(sys.argv[2])
serve(system)

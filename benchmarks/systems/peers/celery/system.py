"""Celery 5.7 with Redis as its broker: jobs that are not durable, acknowledged before they run, as by default.

``default`` is one worker with a child for each process, every setting untouched. ``best`` are as many workers with the
``solo`` pool (https://docs.celeryq.dev/en/stable/userguide/concurrency/index.html): with ``prefork`` one process feeds
all children, and that alone takes the CPU that ``solo`` takes for the whole task, so two children are little more than
half as fast as two ``solo`` workers; ``threads`` takes a tenth more. Runs of more steps are a ``chain``:
https://docs.celeryq.dev/en/stable/userguide/canvas.html. There is no bulk door: a ``group`` sends its tasks one by one,
and took a fifth longer than ``delay``.
"""

import os
import sys
import time
from pathlib import Path

from celery import chain
from protocol import System, serve
from redis import Redis
from tasks import RUNS, STEPS, answer, last_step, step

FOLDER = str(Path(__file__).parent)
# https://docs.celeryq.dev/en/stable/userguide/workers.html: what workers tell each other, and nobody here listens to.
QUIET = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


class CelerySystem(System):
    variants = ("best", "default")
    doors = ("best",)

    def prepare(self) -> None:
        pass

    def connect(self) -> None:
        self.redis = Redis.from_url(os.environ["BENCH_REDIS"])

    def clear(self) -> None:
        # The bindings stay: a client that has declared its queue does not do so again.
        for key in self.redis.scan_iter():
            if not key.startswith(b"_kombu.binding"):
                self.redis.delete(key)
        for file in (STEPS, RUNS):
            os.ftruncate(file, 0)

    def enqueue(self, count: int, steps: int) -> None:
        run = last_step if steps == 1 else chain(*[step.si() for _ in range(steps - 1)], last_step.si())
        for _ in range(count):
            run.delay()

    def finished(self) -> int:
        return os.fstat(RUNS).st_size

    def steps_done(self) -> int:
        return os.fstat(STEPS).st_size

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            answer.delay().get()
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def worker_commands(self, processes: int) -> list[list[str]]:
        worker = [sys.executable, "-m", "celery", "--workdir", FOLDER, "--app", "tasks", "worker"]
        if self.variant == "default":
            return [[*worker, "--concurrency", str(processes)]]
        return [[*worker, "--pool", "solo", *QUIET, "--hostname", f"bench{n}@%h"] for n in range(processes)]


serve(CelerySystem())

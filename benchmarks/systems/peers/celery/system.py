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

from celery import chain, chord
from notes import ms_of_child, note_parent
from protocol import System, naps, serve
from redis import Redis
from tasks import RUNS, STEPS, answer, child, join, last_step, nap, step

FOLDER = str(Path(__file__).parent)
ENDS_WITHIN = 180.0
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
        for notes in (STEPS, RUNS):
            notes.clear()

    def enqueue(self, count: int, steps: int) -> None:
        run = last_step if steps == 1 else chain(*[step.si() for _ in range(steps - 1)], last_step.si())
        for _ in range(count):
            run.delay()

    def finished(self) -> int:
        return RUNS.count()

    def steps_done(self) -> int:
        return STEPS.count()

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            answer.delay().get()
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def nap(self, until: float, apart: float, count: int) -> None:
        for instant in naps(until, apart, count):
            nap.delay(instant)

    def fan_out(self, count: int) -> float:
        """A ``chord``, which is sent from here: there is no parent whose first instruction could be seen."""
        note_parent()
        chord([child.s(number) for number in range(count)])(join.s()).get(timeout=ENDS_WITHIN)
        return ms_of_child(count)

    def worker_commands(self, processes: int) -> list[list[str]]:
        worker = [sys.executable, "-m", "celery", "--workdir", FOLDER, "--app", "tasks", "worker"]
        if self.variant == "default":
            return [[*worker, "--concurrency", str(processes)]]
        return [[*worker, "--pool", "solo", *QUIET, "--hostname", f"bench{n}@%h"] for n in range(processes)]


serve(CelerySystem())

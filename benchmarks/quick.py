"""The measured floors: how fast the engine is, end to end, in a minute.

Real ``durable_worker`` processes (``--no-standby``) against servers of the benchmark's own, with fsync and
synchronous_commit on. Times are taken from the rows (first claim to last outcome), runs and journal rows are counted
afterwards, and each figure is the median of three. ``def`` workflows run at the worker's default ``--concurrency``,
which is threads; ``async def`` ones all at a time, since coroutines are cheap. Usage: ``python benchmarks/quick.py
[--json] [--queue redis|database] [--database postgresql|sqlite] [--only NAME] [--size PART] [--repetitions N]``; exit
status 1 where a floor is missed (PostgreSQL with Redis only).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
ASYNC_CONCURRENCY = 200
FLOORS = {
    "steps_per_s_sync": 3000.0,
    "steps_per_s_async": 6000.0,
    "runs_per_s_drain": 1500.0,
    "enqueue_per_s": 1500.0,
    "latency_ms_p50": 15.0,
}


def main() -> int:
    options = read_options()
    with ExitStack() as stack:
        set_up(stack, options)
        print(heading(), flush=True)
        names = [name for name in MEASURES if options.only in (None, name)]
        figures = {name: measure(name, options.size, options.repetitions) for name in names}
    for name, value in figures.items():
        print(f"{name:20} {value:10,.1f}   floor {FLOORS[name]:,.0f}")
    is_met = all(meets(name, value) for name, value in figures.items())
    if options.json:
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
    return 0 if is_met or (options.queue, options.database) != ("redis", "postgresql") else 1


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--queue", choices=["redis", "database"], default="redis")
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--only", choices=sorted(FLOORS))
    parser.add_argument("--size", type=float, default=1.0, help="only this part of the runs (of 1)")
    parser.add_argument("--repetitions", type=int, default=3, help="after a first that counts where there is no other")
    return parser.parse_args()


def meets(name: str, value: float) -> bool:
    return value <= FLOORS[name] if name.startswith("latency") else value >= FLOORS[name]


def set_up(stack: ExitStack, options: argparse.Namespace) -> None:
    from tests.servers import Folder, PostgresServer, RedisServer

    folder = stack.enter_context(Folder())
    if options.database == "sqlite":
        extra = {"transaction_mode": "IMMEDIATE", "timeout": 30, "init_command": "PRAGMA journal_mode=WAL"}
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "bench.sqlite3"), "OPTIONS": extra}
    else:
        database = dict(stack.enter_context(PostgresServer(folder, fsync=True)).settings("postgres"))
    os.environ["BENCH_DATABASE"] = json.dumps(database)
    os.environ["BENCH_QUEUE"] = options.queue
    if options.queue == "redis":
        os.environ["BENCH_REDIS"] = stack.enter_context(RedisServer(folder)).url
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def heading() -> str:
    """What is really measured: asked of the connection and of the queue, not of the options."""
    from django.db import connection

    from django_durable.queues.current import queue_kind

    return f"{connection.vendor}, {queue_kind()} queue; --concurrency: sync its default, async {ASYNC_CONCURRENCY}"


def measure(name: str, size: float, repetitions: int) -> float:
    values = [MEASURES[name](size) for _ in range(repetitions + 1)]
    # The first is the warm-up: plans, caches, the file system.
    return median(values[1:] or values)


@contextmanager
def workers(*arguments: str) -> Iterator[None]:
    from django_durable.models import Worker

    command = [sys.executable, "-m", "django", "durable_worker", "--verbosity", "0", "--no-standby", *arguments]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    count = int(arguments[arguments.index("--processes") + 1]) if "--processes" in arguments else 1
    try:
        wait_for(lambda: Worker.objects.filter(stopped_at=None).count() == count)
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(condition: Callable[[], bool], timeout: float = 120.0) -> None:
    ends = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError("the benchmark's runs did not finish")
        time.sleep(0.01)


def rate(workflow: Any, runs: int, steps: int, *arguments: str) -> float:
    """Steps a second from the first claim to the last outcome of ``runs`` runs."""
    from django.db.models import Max, Min

    from django_durable.models import JournalEntry, Run

    empty()
    with workers(*arguments):
        workflow.enqueue_many([{"count": steps}] * runs)
        wait_for(lambda: not Run.objects.exclude(status="succeeded").exists())
    span = Run.objects.aggregate(first=Min("started_at"), last=Max("finished_at"))
    compare((Run.objects.filter(status="succeeded").count(), JournalEntry.objects.count()), (runs, runs * steps))
    return float(runs * steps / (span["last"] - span["first"]).total_seconds())


def compare(counted: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """A figure is worth nothing where rows are missing."""
    if counted != expected:
        raise AssertionError(f"counted {counted}, expected {expected}")


def empty() -> None:
    from django.db import connection

    from django_durable.models import ClaimRecord, JournalEntry, Payload, Run, Worker

    for model in (ClaimRecord, JournalEntry, Payload, Run, Worker):
        model.objects.all().delete() if connection.vendor == "sqlite" else _truncate(model)


def _truncate(model: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {model._meta.db_table}")


def steps_sync(size: float) -> float:
    from benchmarks.project.workflows import steps

    return rate(steps, part(200, size), 10, "--processes", "1")


def steps_async(size: float) -> float:
    from benchmarks.project.workflows import steps_async

    concurrency = str(ASYNC_CONCURRENCY)
    return rate(steps_async, part(200, size), 10, "--processes", "1", "--concurrency", concurrency)


def drain(size: float) -> float:
    from benchmarks.project.workflows import one_step

    return rate(one_step, part(5000, size), 1, "--processes", "2")


def enqueue(size: float) -> float:
    from benchmarks.project.workflows import steps
    from django_durable.models import Payload, Run

    runs = part(1000, size)
    empty()
    began = time.perf_counter()
    for _ in range(runs):
        steps.enqueue(count=1)
    seconds = time.perf_counter() - began
    compare((Run.objects.filter(status="queued").count(), Payload.objects.count()), (runs, runs))
    return runs / seconds


def latency(size: float) -> float:
    """Milliseconds from a run's row to its outcome, one at a time on an idle system."""
    from benchmarks.project.workflows import one_step
    from django_durable.models import Run

    runs = part(50, size)
    empty()
    with workers("--processes", "1"):
        for _ in range(runs):
            handle = one_step.enqueue(count=1)
            wait_for(lambda: handle.refresh().status == "succeeded")  # noqa: B023
            time.sleep(0.01)
    spans = [run.finished_at - run.created_at for run in Run.objects.all() if run.finished_at]
    compare((len(spans),), (runs,))
    return median(span.total_seconds() * 1000 for span in spans)


def part(runs: int, size: float) -> int:
    return max(2, round(runs * size))


MEASURES: dict[str, Callable[[float], float]] = {
    "steps_per_s_sync": steps_sync,
    "steps_per_s_async": steps_async,
    "runs_per_s_drain": drain,
    "enqueue_per_s": enqueue,
    "latency_ms_p50": latency,
}

if __name__ == "__main__":
    sys.exit(main())

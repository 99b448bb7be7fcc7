"""DBOS Transact 3.4: workflows from a queue in worker processes, and started directly in the process that runs them.

Follows https://docs.dbos.dev/python/examples/queue-worker (client, queue and workers), /python/reference/queues,
/python/reference/configuration and, for the direct variants, /python/tutorials/workflow-tutorial.
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy
from copies import DAY, Copies, forget_later
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from notes import ms_of_child
from protocol import System, Unsupported, naps, serve
from workflows import QUEUE, RESULT_POLLING_SECONDS, fan_out, loop, nap, run, run_async

URL = os.environ["BENCH_POSTGRES"]
NAME = QUEUE
# Without a limit the first worker to look takes the whole queue; 20 was slower, 100 and 500 were not faster.
WORKER_CONCURRENCY = 200
# 1 s by default. At 0.01 it drained no faster, and an idle worker took a fifth of a core; a lone run waits for it.
POLLING_SECONDS = {"sync-10ms": 0.01, "async-10ms": 0.01}
ELSE_POLLING_SECONDS = 0.05
# Where the result tells no time.
SELDOM = 0.25
# Unlimited by default. 16 and 32 were slower by up to a quarter, no limit slower still for coroutines.
THREADS = 8
PATIENCE = 60.0
# What a workflow consists of, each with the column, in milliseconds, that tells an old row from a new one.
TABLES = {
    "workflow_status": "created_at",
    "workflow_input": "retention_timestamp",
    "workflow_output": "retention_timestamp",
    "operation_outputs": "completed_at_epoch_ms",
}
ORDER_BYTES = 2**24


def launch() -> None:
    config = DBOSConfig(
        name=NAME,
        application_version="1",
        # Without Conductor "it must be set to a unique value for each process".
        executor_id=f"bench-{os.getpid()}",
        system_database_url=URL,
        max_executor_threads=THREADS,
        log_level="WARNING",
    )
    DBOS(config=config)
    DBOS.launch()


class QueuedDbos(System):
    variants = ("sync-10ms", "async-10ms", "sync-direct", "async-direct")
    doors = ("sync",)
    drains = ("sync", "async")
    after = 0
    """Milliseconds since 1970: what is older is history."""

    def prepare(self) -> None:
        launch()
        polling = POLLING_SECONDS.get(self.variant, ELSE_POLLING_SECONDS)
        DBOS.register_queue(QUEUE, worker_concurrency=WORKER_CONCURRENCY, polling_interval_sec=polling)
        DBOS.destroy()

    def connect(self) -> None:
        self.connection = psycopg.connect(URL, autocommit=True)
        self.client = DBOSClient(system_database_url=URL, application_name=NAME)
        self.engine = sqlalchemy.create_engine(URL)
        workflow = run_async if self.variant.startswith("async") else run
        self.options = EnqueueOptions(workflow_name=workflow.__qualname__, queue_name=QUEUE)

    def clear(self) -> None:
        if self.after:
            later = {f"dbos.{table}": f"{column} > {self.after}" for table, column in TABLES.items()}
            forget_later(self.connection.cursor(), later)
        else:
            self.connection.execute(f"TRUNCATE {', '.join(f'dbos.{table}' for table in TABLES)} CASCADE")

    def history(self, count: int) -> None:
        if count:
            with self.connection.cursor() as cursor:
                [(one,)] = cursor.execute(
                    "SELECT workflow_uuid FROM dbos.workflow_status WHERE status = 'SUCCESS' LIMIT 1"
                )
                copies = Copies(cursor, count)
                instants = ("updated_at", "started_at_epoch_ms", "completed_at")
                more = {
                    "workflow_status": instants,
                    "operation_outputs": ("started_at_epoch_ms", "retention_timestamp"),
                }
                for table, column in TABLES.items():
                    own = dict.fromkeys((column, *more.get(table, ())), copies.milliseconds)
                    own["workflow_uuid"] = f"{copies.random_id('old.workflow_uuid')}::text"
                    copies.of(f"dbos.{table}", own, f"workflow_uuid = '{one}'")
        self.after = round(1000 * (time.time() - DAY / 2))
        self.clear()

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            self.client.enqueue(self.options, steps)

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        """There is no bulk call; the documented ``enqueue_in_transaction`` saves the commits."""
        for first in range(0, count, batch):
            with self.engine.begin() as connection:
                for _ in range(min(batch, count - first)):
                    self.client.enqueue_in_transaction(connection, self.options, steps)

    def finished(self) -> int:
        return self.count(f"workflow_status WHERE status = 'SUCCESS' AND created_at > {self.after}")

    def steps_done(self) -> int:
        return self.count("operation_outputs")

    def count(self, what: str) -> int:
        row = self.connection.execute(f"SELECT count(*) FROM dbos.{what}").fetchone()
        return int(row[0]) if row else 0

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            self.client.enqueue(self.options, 1).get_result(polling_interval_sec=RESULT_POLLING_SECONDS)
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def fan_out(self, count: int) -> float:
        self.ask(fan_out, count)
        return ms_of_child(count)

    def loop_in_worker(self, marks: list[int]) -> list[float]:
        return list(self.ask(loop, marks))

    def ask(self, workflow: Any, argument: Any) -> Any:
        options = EnqueueOptions(workflow_name=workflow.__qualname__, queue_name=QUEUE)
        return self.client.enqueue(options, argument).get_result(polling_interval_sec=SELDOM)

    def worker_commands(self, processes: int) -> list[list[str]]:
        return [[sys.executable, __file__, "worker"]] * processes


class DirectDbos(QueuedDbos):
    """Each worker process starts the workflows that it runs, as a web application would.

    The client only tells it how many, so that what is measured has a process of its own and is not counted in it.
    """

    is_pushed = True
    listener: socket.socket | None = None

    def prepare(self) -> None:
        # No queue: its polling would be for nothing.
        launch()
        DBOS.destroy()

    def worker_commands(self, processes: int) -> list[list[str]]:
        path = Path(os.environ["BENCH_FOLDER"]) / "direct"
        path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(PATIENCE)
        self.expected = processes
        self.workers: list[Any] = []
        return [[sys.executable, __file__, "worker", str(path)]] * processes

    def enqueue(self, count: int, steps: int) -> None:
        workers = self.connected()
        self.order(workers, [{"runs": len(range(i, count, len(workers))), "steps": steps} for i in range(len(workers))])

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        raise Unsupported("no bulk start_workflow")

    def nap(self, until: float, apart: float, count: int) -> None:
        """Started directly: a queue counts those that sleep among the ``worker_concurrency`` that run."""
        if self.variant != "async-direct":
            raise Unsupported("keeps a thread for each sleeper")
        workers = self.connected()
        instants = naps(until, apart, count)
        self.order(workers, [{"naps": instants[number :: len(workers)]} for number in range(len(workers))])

    def latency(self, count: int) -> list[float]:
        (milliseconds,) = self.order(self.connected()[:1], [{"latency": count}])
        return list(milliseconds)

    def connected(self) -> list[Any]:
        if self.listener is None:
            raise Unsupported("starts runs nowhere but where they run")
        while len(self.workers) < self.expected:
            connection, _ = self.listener.accept()
            connection.settimeout(None)
            self.workers.append(connection.makefile("rw"))
        return self.workers

    def order(self, workers: list[Any], orders: list[dict[str, Any]]) -> list[Any]:
        for worker, order in zip(workers, orders, strict=True):
            print(json.dumps(order), file=worker, flush=True)
        return [json.loads(worker.readline()) for worker in workers]


def work() -> None:
    launch()
    threading.Event().wait()


def work_directly(path: str) -> None:
    launch()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        stream = connection.makefile("rw")
        for line in stream:
            print(json.dumps(obey(**json.loads(line))), file=stream, flush=True)


def obey(runs: int = 0, steps: int = 1, latency: int = 0) -> list[float]:
    for _ in range(runs):
        DBOS.start_workflow(run, steps)
    milliseconds = []
    for _ in range(latency):
        began = time.perf_counter()
        DBOS.start_workflow(run, steps).get_result()
        milliseconds.append((time.perf_counter() - began) * 1000)
    return milliseconds


async def work_directly_async(path: str) -> None:
    launch()
    reader, writer = await asyncio.open_unix_connection(path, limit=ORDER_BYTES)
    async for line in reader:
        answer = await obey_async(**json.loads(line))
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


async def obey_async(runs: int = 0, steps: int = 1, latency: int = 0, naps: tuple[float, ...] = ()) -> list[float]:
    # All at once: one after another it took a third longer.
    await asyncio.gather(*(DBOS.start_workflow_async(run_async, steps) for _ in range(runs)))
    await asyncio.gather(*(DBOS.start_workflow_async(nap, until) for until in naps))
    milliseconds = []
    for _ in range(latency):
        began = time.perf_counter()
        handle = await DBOS.start_workflow_async(run_async, steps)
        await handle.get_result()
        milliseconds.append((time.perf_counter() - began) * 1000)
    return milliseconds


def main() -> None:
    system = QueuedDbos()
    if system.variant.endswith("-direct"):
        system = DirectDbos()
    if sys.argv[1] != "worker":
        serve(system)
    elif not system.is_pushed:
        work()
    elif system.variant == "sync-direct":
        work_directly(sys.argv[2])
    else:
        asyncio.run(work_directly_async(sys.argv[2]))


if __name__ == "__main__":
    main()

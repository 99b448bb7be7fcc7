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
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from protocol import System, Unsupported, serve

URL = os.environ["BENCH_POSTGRES"]
NAME = QUEUE = "bench"
# Without a limit the first worker to look takes the whole queue; 20 was slower, 100 and 500 were not faster.
WORKER_CONCURRENCY = 200
# 1 s by default. At 0.01 it drained no faster, and an idle worker took a fifth of a core; a lone run waits for it.
POLLING_SECONDS = {"sync-10ms": 0.01, "async-10ms": 0.01}
ELSE_POLLING_SECONDS = 0.05
# 1 s by default; costs something only while a result is waited for.
RESULT_POLLING_SECONDS = 0.01
# Unlimited by default. 16 and 32 were slower by up to a quarter, no limit slower still for coroutines.
THREADS = 8
PATIENCE = 60.0


@DBOS.step()
def step() -> None:
    pass


@DBOS.workflow()
def run(steps: int) -> None:
    for _ in range(steps):
        step()


@DBOS.step()
async def step_async() -> None:
    pass


@DBOS.workflow()
async def run_async(steps: int) -> None:
    for _ in range(steps):
        await step_async()


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
        tables = ("workflow_status", "workflow_input", "workflow_output", "operation_outputs")
        self.connection.execute(f"TRUNCATE {', '.join(f'dbos.{table}' for table in tables)} CASCADE")

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
        return self.count("workflow_status WHERE status = 'SUCCESS'")

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

    def order(self, workers: list[Any], orders: list[dict[str, int]]) -> list[Any]:
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
    reader, writer = await asyncio.open_unix_connection(path)
    async for line in reader:
        answer = await obey_async(**json.loads(line))
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


async def obey_async(runs: int = 0, steps: int = 1, latency: int = 0) -> list[float]:
    # All at once: one after another it took a third longer.
    await asyncio.gather(*(DBOS.start_workflow_async(run_async, steps) for _ in range(runs)))
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

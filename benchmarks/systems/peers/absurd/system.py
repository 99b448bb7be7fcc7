"""Absurd 0.5.1: ``absurd-sdk``, with the schema that ``absurdctl`` of the same version brings.

Follows https://github.com/earendil-works/absurd/blob/main/docs/sdks/python.md (workers) and docs/database.md there: the
schema is applied as one's own migrations would, which needs no ``psql``.
"""

import asyncio
import os
import sys
import time

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd, AsyncTaskContext, TaskContext
from absurdctl import BUNDLED_SCHEMA_SQL
from protocol import System, serve

URL = os.environ["BENCH_POSTGRES"]
QUEUE = "bench"
# A worker has one connection, so threads only wait for it: each run took half as much CPU again with four or eight.
CONCURRENCY = 1
# Coroutines wait for the same connection, more cheaply: 8 to 64 made no difference.
CONCURRENCY_ASYNC = 32
# By default as many as run at a time; a claim for each run was a third commit for it, and cost a third of the rate.
BATCH_SIZE = 100
# ``await_task_result`` looks at once, after 50 ms and then more and more seldom: by 50 ms a run should be done.
POLL_INTERVAL = 0.025


class AbsurdSystem(System):
    variants = ("sync", "async")
    doors = ("sync",)

    def prepare(self) -> None:
        with psycopg.connect(URL, autocommit=True) as connection:
            connection.execute(BUNDLED_SCHEMA_SQL)
        Absurd(URL, queue_name=QUEUE).create_queue()

    def connect(self) -> None:
        self.connection = psycopg.connect(URL, autocommit=True)
        self.client = Absurd(URL, queue_name=QUEUE)

    def clear(self) -> None:
        self.client.drop_queue()
        self.client.create_queue()

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            self.client.spawn("run", {"steps": steps}, queue=QUEUE)

    def finished(self) -> int:
        return self.count(f"absurd.t_{QUEUE} WHERE state = 'completed'")

    def steps_done(self) -> int:
        return self.count(f"absurd.c_{QUEUE}")

    def count(self, what: str) -> int:
        row = self.connection.execute(f"SELECT count(*) FROM {what}").fetchone()
        return int(row[0]) if row else 0

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            task = self.client.spawn("run", {"steps": 1}, queue=QUEUE)
            self.client.await_task_result(task["task_id"])
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def worker_commands(self, processes: int) -> list[list[str]]:
        return [[sys.executable, __file__, "worker"]] * processes


def work() -> None:
    app = Absurd(URL, queue_name=QUEUE)

    @app.register_task("run")
    def run(params: dict[str, int], ctx: TaskContext) -> None:
        for _ in range(params["steps"]):
            ctx.step("step", lambda: None)

    app.start_worker(concurrency=CONCURRENCY, batch_size=BATCH_SIZE, poll_interval=POLL_INTERVAL)


async def work_async() -> None:
    app = AsyncAbsurd(URL, queue_name=QUEUE)

    async def step() -> None:
        pass

    @app.register_task("run")
    async def run(params: dict[str, int], ctx: AsyncTaskContext) -> None:
        for _ in range(params["steps"]):
            await ctx.step("step", step)

    await app.start_worker(concurrency=CONCURRENCY_ASYNC, batch_size=BATCH_SIZE, poll_interval=POLL_INTERVAL)


if __name__ == "__main__":
    system = AbsurdSystem()
    if sys.argv[1] != "worker":
        serve(system)
    elif system.variant == "async":
        asyncio.run(work_async())
    else:
        work()

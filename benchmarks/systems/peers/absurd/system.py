"""Absurd 0.5.1: ``absurd-sdk``, with the schema that ``absurdctl`` of the same version brings.

Follows https://github.com/earendil-works/absurd/blob/main/docs/sdks/python.md (workers) and docs/database.md there: the
schema is applied as one's own migrations would, which needs no ``psql``.
"""

import asyncio
import os
import sys
import time
from typing import Any
from uuid import UUID, uuid4

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd, AsyncTaskContext, TaskContext
from absurdctl import BUNDLED_SCHEMA_SQL
from copies import DAY, Copies, forget_later
from notes import begin_nap, end_nap, ms_of_child, note_parent
from protocol import System, naps, serve

URL = os.environ["BENCH_POSTGRES"]
QUEUE, CHILDREN = "bench", "bench_children"
# A variant whose workers work on what a task of another worker has spawned: nobody may wait for tasks of its own queue.
WITH_CHILDREN = "sync-children"
# Whose id was made at that instant (UUIDv7) or before is history.
OLDEST = "00000000-0000-0000-0000-000000000000"
# What a task consists of, each with the id by which old rows are told from new ones.
TABLES = {f"absurd.t_{QUEUE}": "task_id", f"absurd.r_{QUEUE}": "run_id", f"absurd.c_{QUEUE}": "task_id"}
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
    after = OLDEST

    def prepare(self) -> None:
        with psycopg.connect(URL, autocommit=True) as connection:
            connection.execute(BUNDLED_SCHEMA_SQL)
        for queue in (QUEUE, CHILDREN):
            Absurd(URL, queue_name=queue).create_queue()

    def connect(self) -> None:
        self.connection = psycopg.connect(URL, autocommit=True)
        self.client = Absurd(URL, queue_name=QUEUE)

    def clear(self) -> None:
        if self.after != OLDEST:
            later = {table: f"{key} > '{self.after}'" for table, key in TABLES.items()}
            forget_later(self.connection.cursor(), later)
            return
        for queue in (QUEUE, CHILDREN):
            self.client.drop_queue(queue)
            self.client.create_queue(queue)

    def history(self, count: int) -> None:
        if count:
            with self.connection.cursor() as cursor:
                [(task, run)] = cursor.execute(
                    f"SELECT task_id, last_attempt_run FROM absurd.t_{QUEUE} WHERE state = 'completed' LIMIT 1"
                )
                copies = Copies(cursor, count)
                ids = {"task_id": copies.id_in_time(f"'{task}'")}
                run_id, where = copies.id_in_time(f"'{run}'"), f"task_id = '{task}'"
                own = {"last_attempt_run": run_id, "enqueue_at": copies.at, "first_started_at": copies.at}
                copies.of(f"absurd.t_{QUEUE}", ids | own, where)
                instants = ("available_at", "started_at", "completed_at", "created_at")
                copies.of(f"absurd.r_{QUEUE}", ids | dict.fromkeys(instants, copies.at) | {"run_id": run_id}, where)
                copies.of(f"absurd.c_{QUEUE}", ids | {"owner_run_id": run_id, "updated_at": copies.at}, where)
        # The first id of that millisecond.
        self.after = str(UUID(int=round(1000 * (time.time() - DAY / 2)) << 80))
        self.clear()

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            self.client.spawn("run", {"steps": steps}, queue=QUEUE)

    def finished(self) -> int:
        return self.count(f"absurd.t_{QUEUE} WHERE task_id > '{self.after}' AND state = 'completed'")

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

    def nap(self, until: float, apart: float, count: int) -> None:
        for instant in naps(until, apart, count):
            self.client.spawn("nap", {"until": instant}, queue=QUEUE)

    def fan_out(self, count: int) -> float:
        self.ask("fan_out", {"count": count, "key": str(uuid4())})
        return ms_of_child(count)

    def loop_in_worker(self, marks: list[int]) -> list[float]:
        return list(self.ask("loop", {"marks": marks}))

    def ask(self, name: str, params: dict[str, Any]) -> Any:
        task = self.client.spawn(name, params, queue=QUEUE)
        found = self.client.await_task_result(task["task_id"])
        assert found.state == "completed", found
        return found.result

    def worker_commands(self, processes: int) -> list[list[str]]:
        worker = [sys.executable, __file__, "worker"]
        if self.variant == WITH_CHILDREN:
            return [[*worker, QUEUE], *[[*worker, CHILDREN]] * processes]
        return [[*worker, QUEUE]] * processes


def work(queue: str) -> None:
    app = Absurd(URL, queue_name=queue)

    @app.register_task("run")
    def run(params: dict[str, int], ctx: TaskContext) -> None:
        for _ in range(params["steps"]):
            ctx.step("step", lambda: None)

    @app.register_task("nap")
    def nap(params: dict[str, float], ctx: TaskContext) -> None:
        ctx.step("before", lambda: begin_nap(params["until"]))
        ctx.sleep_until("nap", params["until"])
        ctx.step("after", lambda: end_nap(params["until"]))

    # A name belongs to one queue in each process.
    @app.register_task("child", queue=CHILDREN)
    def child(params: dict[str, int], ctx: TaskContext) -> int:
        return params["number"]

    @app.register_task("fan_out")
    def fan_out(params: dict[str, Any], ctx: TaskContext) -> None:
        note_parent()
        # Whoever runs it again must not start them twice.
        children = [
            app.spawn("child", {"number": number}, queue=CHILDREN, idempotency_key=f"{params['key']}-{number}")
            for number in range(params["count"])
        ]
        for one in children:
            ctx.await_task_result(one["task_id"], CHILDREN)
        note_parent()

    @app.register_task("loop")
    def loop(params: dict[str, list[int]], ctx: TaskContext) -> list[float]:
        marks = params["marks"]
        instants = (ctx.step("turn", time.perf_counter) for _ in range(marks[-1] + 1))
        return [instant for number, instant in enumerate(instants) if number in marks]

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
        work(sys.argv[2])

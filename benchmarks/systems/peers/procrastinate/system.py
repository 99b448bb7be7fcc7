"""Procrastinate 3.10: durable jobs in PostgreSQL, run as coroutines ("asynchronous at core").

Settings: https://procrastinate.readthedocs.io/en/stable/discussions.html (concurrency, the size of the pool) and
https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html. Finished jobs are kept, as by default.
"""

import os
import sys
import time

import psycopg
from procrastinate.jobs import Status
from protocol import System, serve
from tasks import CONCURRENCY, app, last_step, step

# A notification that comes while the worker fetches is lost, and the job waits for the next poll: by default five
# seconds.
POLLING_SECONDS = 0.01


class Procrastinate(System):
    variants = ("async",)

    def prepare(self) -> None:
        with app.open():
            app.schema_manager.apply_schema()

    def connect(self) -> None:
        self.connection = psycopg.connect(os.environ["BENCH_POSTGRES"], autocommit=True)
        app.open()

    def clear(self) -> None:
        self.connection.execute("TRUNCATE procrastinate_jobs, procrastinate_events RESTART IDENTITY CASCADE")

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            if steps == 1:
                last_step.defer()
            else:
                step.defer(left=steps)

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        task, arguments = (last_step, {}) if steps == 1 else (step, {"left": steps})
        for done in range(0, count, batch):
            task.batch_defer(*[arguments] * min(batch, count - done))

    def finished(self) -> int:
        return self.count("status = 'succeeded' AND task_name = 'last_step'")

    def steps_done(self) -> int:
        return self.count("status = 'succeeded'")

    def count(self, which: str) -> int:
        (number,) = self.connection.execute(f"SELECT count(*) FROM procrastinate_jobs WHERE {which}").fetchone()
        return number

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            job_id = last_step.defer()
            # There is no waiting: its status can be asked for.
            while app.job_manager.get_job_status(job_id) is not Status.SUCCEEDED:
                time.sleep(0.001)
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def worker_commands(self, processes: int) -> list[list[str]]:
        return [[sys.executable, __file__, "worker"]] * processes


if sys.argv[1] == "worker":
    app.run_worker(concurrency=CONCURRENCY, fetch_job_polling_interval=POLLING_SECONDS)
else:
    serve(Procrastinate())

"""Procrastinate 3.10: durable jobs in PostgreSQL, run as coroutines ("asynchronous at core").

Settings: https://procrastinate.readthedocs.io/en/stable/discussions.html (concurrency, the size of the pool) and
https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html. Finished jobs are kept, as by default.
"""

import os
import sys
import time

import psycopg
from copies import Copies, forget_later
from procrastinate.jobs import Status
from protocol import System, batches, naps, serve
from tasks import CONCURRENCY, app, last_step, nap, step

# A notification that comes while the worker fetches is lost, and the job waits for the next poll: by default five
# seconds.
POLLING_SECONDS = 0.01
# The jobs, and what has become of them when.
TABLES = {"procrastinate_events": "job_id", "procrastinate_jobs": "id"}


class Procrastinate(System):
    variants = ("async",)
    after: int | None = None
    """Jobs up to this id are history; None: there is none to leave."""

    def prepare(self) -> None:
        with app.open():
            app.schema_manager.apply_schema()

    def connect(self) -> None:
        self.connection = psycopg.connect(os.environ["BENCH_POSTGRES"], autocommit=True)
        app.open()

    def clear(self) -> None:
        if self.after is not None:
            later = {table: f"{key} > {self.after}" for table, key in TABLES.items()}
            forget_later(self.connection.cursor(), later)
        else:
            self.connection.execute("TRUNCATE procrastinate_jobs, procrastinate_events RESTART IDENTITY CASCADE")

    def history(self, count: int) -> None:
        self.after = 0
        if count:
            with self.connection.cursor() as cursor:
                [(one, last)] = cursor.execute(
                    "SELECT min(id), max(id) FROM procrastinate_jobs WHERE status = 'succeeded'"
                )
                [(began,)] = cursor.execute("SELECT min(at) FROM procrastinate_events WHERE job_id = %s", [one])
                copies, new_id = Copies(cursor, count), f"{last + 1} + n"
                # No trigger is to write of a copy that something has become of it.
                cursor.execute("SET session_replication_role = replica")
                copies.of("procrastinate_jobs", {"id": new_id}, f"id = {one}")
                events = {"job_id": new_id, "at": f"old.at + ({copies.at} - '{began.isoformat()}'::timestamptz)"}
                copies.of("procrastinate_events", events, f"job_id = {one}", without="id")
                cursor.execute("RESET session_replication_role")
                self.after = last + count
                cursor.execute("SELECT setval(pg_get_serial_sequence('procrastinate_jobs', 'id'), %s)", [self.after])
        self.clear()

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
        return self.count(f"id > {self.after or 0} AND status = 'succeeded' AND task_name = 'last_step'")

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

    def nap(self, until: float, apart: float, count: int) -> None:
        for instants in batches(naps(until, apart, count)):
            nap.batch_defer(*({"until": instant} for instant in instants))

    def worker_commands(self, processes: int) -> list[list[str]]:
        return [[sys.executable, __file__, "worker"]] * processes


if sys.argv[1] == "worker":
    app.run_worker(concurrency=CONCURRENCY, fetch_job_polling_interval=POLLING_SECONDS)
else:
    serve(Procrastinate())

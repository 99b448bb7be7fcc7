"""The Celery application, which the client and the workers import.

``best`` follows https://docs.celeryq.dev/en/stable/userguide/optimizing.html, ``default`` leaves every setting alone.
"""

import os
from datetime import UTC, datetime

from celery import Celery
from notes import begin_nap, end_nap, note_parent, notes

# A socket's URL as Celery writes it: https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html
REDIS = os.environ["BENCH_REDIS"].replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")

app = Celery("tasks", broker=REDIS, backend=REDIS)
if os.environ.get("BENCH_VARIANT") != "default":
    # For "many short-running tasks" it "should be large": "say 64, or 128".
    app.conf.worker_prefetch_multiplier = 128


# Celery keeps no count of what has run.
STEPS, RUNS = notes("celery-steps"), notes("celery-runs")


# https://docs.celeryq.dev/en/stable/userguide/tasks.html: "storing results wastes time and resources".
@app.task(ignore_result=True)
def step() -> None:
    STEPS.add()


@app.task(ignore_result=True)
def last_step() -> None:
    STEPS.add()
    RUNS.add()


@app.task
def answer() -> int:
    last_step()
    return 1


@app.task(ignore_result=True)
def nap(until: float) -> None:
    """There is no sleep: a task sends another one for later."""
    begin_nap(until)
    after_nap.apply_async([until], eta=datetime.fromtimestamp(until, UTC))


@app.task(ignore_result=True)
def after_nap(until: float) -> None:
    end_nap(until)


@app.task
def child(number: int) -> int:
    return number


@app.task
def join(results: list[int]) -> None:
    note_parent()

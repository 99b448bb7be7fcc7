"""The Celery application, which the client and the workers import.

``best`` follows https://docs.celeryq.dev/en/stable/userguide/optimizing.html, ``default`` leaves every setting alone.
"""

import os
from pathlib import Path

from celery import Celery

# A socket's URL as Celery writes it: https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html
REDIS = os.environ["BENCH_REDIS"].replace("unix://", "redis+socket://").replace("?db=", "?virtual_host=")

app = Celery("tasks", broker=REDIS, backend=REDIS)
if os.environ.get("BENCH_VARIANT") != "default":
    # For "many short-running tasks" it "should be large": "say 64, or 128".
    app.conf.worker_prefetch_multiplier = 128


def dots(name: str) -> int:
    """A file with a byte for each task that has run: Celery keeps no count, and this one costs a microsecond."""
    return os.open(Path(os.environ["BENCH_FOLDER"], f"celery-{name}"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)


STEPS, RUNS = dots("steps"), dots("runs")


# https://docs.celeryq.dev/en/stable/userguide/tasks.html: "storing results wastes time and resources".
@app.task(ignore_result=True)
def step() -> None:
    os.write(STEPS, b".")


@app.task(ignore_result=True)
def last_step() -> None:
    os.write(STEPS, b".")
    os.write(RUNS, b".")


@app.task
def answer() -> int:
    last_step()
    return 1

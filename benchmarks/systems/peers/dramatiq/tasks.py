"""The dramatiq actors, which the client and the workers import: https://dramatiq.io/guide.html."""

import os
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["BENCH_REDIS"])))
dramatiq.set_broker(broker)


def dots(name: str) -> int:
    """A file with a byte for each message that has run: dramatiq keeps no count, and this one costs a microsecond."""
    return os.open(Path(os.environ["BENCH_FOLDER"], f"dramatiq-{name}"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)


STEPS, RUNS = dots("steps"), dots("runs")


@dramatiq.actor
def step() -> None:
    os.write(STEPS, b".")


@dramatiq.actor
def last_step() -> None:
    os.write(STEPS, b".")
    os.write(RUNS, b".")


@dramatiq.actor(store_results=True)
def answer() -> int:
    last_step()
    return 1

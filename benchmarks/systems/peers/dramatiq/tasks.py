"""The dramatiq actors, which the client and the workers import: https://dramatiq.io/guide.html."""

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from notes import begin_nap, end_nap, notes

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
broker.add_middleware(Results(backend=RedisBackend(url=os.environ["BENCH_REDIS"])))
dramatiq.set_broker(broker)


# dramatiq keeps no count of what has run.
STEPS, RUNS = notes("dramatiq-steps"), notes("dramatiq-runs")


@dramatiq.actor
def step() -> None:
    STEPS.add()


@dramatiq.actor
def last_step() -> None:
    STEPS.add()
    RUNS.add()


@dramatiq.actor(store_results=True)
def answer() -> int:
    last_step()
    return 1


@dramatiq.actor
def nap(until: float) -> None:
    """There is no sleep: an actor sends another message for later."""
    begin_nap(until)
    after_nap.send_with_options(args=(until,), delay=max(0, round(1000 * (until - time.time()))))


@dramatiq.actor
def after_nap(until: float) -> None:
    end_nap(until)


@dramatiq.actor(store_results=True)
def child(number: int) -> int:
    return number

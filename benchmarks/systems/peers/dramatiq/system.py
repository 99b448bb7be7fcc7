"""dramatiq 2.2 with Redis as its broker: jobs that are not durable, acknowledged after they ran.

Settings: the environment variables of https://dramatiq.io/reference.html; ``default`` touches none. Runs of more steps
are a ``pipeline`` (of 495 at most). There is no bulk door: a ``group`` sends its messages one by one.
"""

import sys
import time
from pathlib import Path

from dramatiq import group, pipeline
from protocol import System, Unsupported, naps, serve
from tasks import RUNS, STEPS, answer, broker, child, last_step, nap, step

FOLDER = str(Path(__file__).parent)
SETTINGS = {
    # By default a process holds 16 messages at most and, while it does, sleeps for 5 ms and more before it looks again:
    # that sleep is the limit of short jobs. From 256 on (tried to 2,000) it is the CPU: more than twice the jobs.
    "dramatiq_queue_prefetch": "256",
    # How long an idle worker sleeps at most: a second by default, which the first message after a pause waits for.
    "dramatiq_worker_timeout": "10",
    # Of delayed messages a process holds a thousand for each thread at most: when these are all for tomorrow, nobody
    # gets to know of one that is due sooner.
    "dramatiq_delay_queue_prefetch": "100000",
}


class Dramatiq(System):
    variants = ("best", "default")
    doors = ("best",)

    def prepare(self) -> None:
        pass

    def connect(self) -> None:
        pass

    def clear(self) -> None:
        broker.client.flushdb()
        for notes in (STEPS, RUNS):
            notes.clear()

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            if steps == 1:
                last_step.send()
            else:
                send_steps(steps)

    def finished(self) -> int:
        return RUNS.count()

    def steps_done(self) -> int:
        return STEPS.count()

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            answer.send().get_result(block=True)
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def nap(self, until: float, apart: float, count: int) -> None:
        for instant in naps(until, apart, count):
            nap.send(instant)

    def fan_out(self, count: int) -> float:
        """A ``group``, which is sent from here, and whose results are asked for here: it has no parent."""
        began = time.perf_counter()
        results = group(child.message(number) for number in range(count)).run().get_results(block=True, timeout=180_000)
        assert len(list(results)) == count
        return 1000 * (time.perf_counter() - began) / count

    def worker_commands(self, processes: int) -> list[list[str]]:
        is_best = self.variant == "best"
        settings = [f"{name}={value}" for name, value in SETTINGS.items()] if is_best else []
        # Eight are the default. Jobs that do nothing are done sooner by two: 8,600 and 9,000 a second beside 5,300 and
        # 7,200. For real work those would not do, but neither do others wait for anything here.
        threads = "2" if is_best else "8"
        options = ["--processes", str(processes), "--threads", threads, "--path", FOLDER]
        return [["env", *settings, sys.executable, "-m", "dramatiq", "tasks", *options]]


def send_steps(steps: int) -> None:
    ignoring = {"pipe_ignore": True}  # the steps pass nothing on
    messages = [step.message_with_options(**ignoring) for _ in range(steps - 1)]
    try:
        pipeline([*messages, last_step.message_with_options(**ignoring)]).run()
    except RecursionError as error:
        raise Unsupported(f"a message holds all that follow it, and {steps} are too deep for JSON") from error


serve(Dramatiq())

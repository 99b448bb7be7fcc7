"""The workflows, which the client names and the workers run: https://docs.dbos.dev/python/tutorials/workflow-tutorial."""

import time

from dbos import DBOS
from notes import begin_nap, end_nap, left, note_parent

QUEUE = "bench"
# 1 s by default; costs something only while a result is waited for.
RESULT_POLLING_SECONDS = 0.01


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


@DBOS.workflow()
def child(number: int) -> int:
    return number


# https://docs.dbos.dev/python/tutorials/queue-tutorial: enqueue all, then ask each handle.
@DBOS.workflow()
def fan_out(count: int) -> None:
    note_parent()
    handles = [DBOS.enqueue_workflow(QUEUE, child, number) for number in range(count)]
    for handle in handles:
        handle.get_result(polling_interval_sec=RESULT_POLLING_SECONDS)
    note_parent()


@DBOS.step()
def instant() -> float:
    return time.perf_counter()


@DBOS.workflow()
def loop(marks: list[int]) -> list[float]:
    instants = (instant() for _ in range(marks[-1] + 1))
    return [reached for number, reached in enumerate(instants) if number in marks]


@DBOS.step()
async def fall_asleep(until: float) -> None:
    begin_nap(until)


@DBOS.step()
async def wake_up(until: float) -> None:
    end_nap(until)


@DBOS.workflow()
async def nap(until: float) -> None:
    await fall_asleep(until)
    # What is recorded is the instant: a replay sleeps until then.
    await DBOS.sleep_async(left(until))
    await wake_up(until)

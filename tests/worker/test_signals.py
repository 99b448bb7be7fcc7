"""The signals of a worker: each is sent once, a receiver that raises changes nothing, a slow one holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connections
from django.dispatch import Signal

from django_durable import Context, Retry, current_step, durable_workflow, get_run, signals
from django_durable.queues.database import DatabaseQueue
from django_durable.worker import process as module
from django_durable.worker.process import WorkerOptions, WorkerProcess
from tests.processes import PATIENCE, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = Retry(max_attempts=2, initial=0, maximum=0)
SENT = [name for name, signal in vars(signals).items() if isinstance(signal, Signal) and name != "schedule_fired"]
"""Of schedules tell `tests/schedules`."""
refusals: list[str] = []
passes: list[UUID] = []


def do() -> int:
    return 1


def refuse_once() -> None:
    if refusals:
        raise ValueError(refusals.pop())


def refuse() -> None:
    raise ValueError("never")


def cancel_own_run() -> None:
    get_run(current_step().run_id).cancel()


@durable_workflow(name="signals.living", step_retry=AT_ONCE)
def living(ctx: Context) -> int:
    ctx.step("do", do)
    ctx.step("again", refuse_once)
    ctx.sleep("nap", 0.05)
    return ctx.step("last", do)


@durable_workflow(name="signals.failing", step_retry=Retry(max_attempts=1))
def failing(ctx: Context) -> None:
    ctx.step("refuse", refuse)


@durable_workflow(name="signals.cancelled")
def cancelled(ctx: Context) -> None:
    ctx.step("cancel", cancel_own_run)
    ctx.step("never", do)


@durable_workflow(name="signals.changing")
def changing(ctx: Context) -> None:
    """After its nap it asks for a sleep where it has journaled a step."""
    passes.append(ctx.run_id)
    if len(passes) == 1:
        ctx.step("order", do)
        ctx.sleep("nap", 0.05)
    ctx.sleep("order", 1)


LIVES: dict[str, tuple[Any, str, list[str]]] = {
    "succeeded": (
        living,
        "succeeded",
        [
            "run_enqueued",
            "run_started",
            "step_succeeded do",
            "step_retrying again",
            "step_succeeded again",
            "run_waiting",
            "step_succeeded last",
            "run_succeeded",
        ],
    ),
    "failed": (failing, "failed", ["run_enqueued", "run_started", "step_failed refuse", "run_failed"]),
    "cancelled": (cancelled, "cancelled", ["run_enqueued", "run_started", "step_succeeded cancel", "run_cancelled"]),
    "blocked": (
        changing,
        "blocked",
        ["run_enqueued", "run_started", "step_succeeded order", "run_waiting", "run_blocked"],
    ),
}
"""How a run lives, what becomes of it, and what is told of it in which order."""


@pytest.fixture
def listen() -> Iterator[Callable[[str, Callable[..., object]], None]]:
    connected: list[tuple[Signal, Callable[..., object]]] = []

    def connect(name: str, receive: Callable[..., object]) -> None:
        signal = getattr(signals, name)
        signal.connect(receive, weak=False)
        connected.append((signal, receive))

    yield connect
    for signal, receive in connected:
        signal.disconnect(receive)


@pytest.fixture(autouse=True)
def _fresh_code(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals[:] = ["once"]
    passes.clear()
    # A worker closes its process's queue when it ends, and this process lives on.
    monkeypatch.setattr(module, "current_queue", DatabaseQueue)


def work() -> None:
    """What `durable_worker --burst` does."""
    process = WorkerProcess(uuid4(), WorkerOptions(burst=True, concurrency=4))
    process.run()
    # What the end of the process is for.
    for database in (process._claimer._db, process._heartbeat._db, process._loops._db):
        database.close()
    connections.close_all()


@pytest.mark.parametrize("life", LIVES)
def test_a_run_s_life_is_told_once_whatever_receivers_raise(listen: Any, life: str) -> None:
    workflow, status, told = LIVES[life]
    heard: list[str] = []
    for name in SENT:
        # Before the one that listens: it would not be reached.
        listen(name, lambda **facts: 1 / 0)

        def hear(sender: Any, run_id: UUID, path: str = "", name: str = name, **facts: Any) -> None:
            heard.append(f"{name} {path}".strip())

        listen(name, hear)
    run = workflow.enqueue()
    work()
    assert run.refresh().status == status
    assert heard == told


def test_every_signal_is_among_them() -> None:
    assert {sent.split()[0] for _, _, told in LIVES.values() for sent in told} == set(SENT)


@pytest.mark.parametrize("name", ["run_started", "step_succeeded", "run_succeeded"])
def test_while_a_receiver_is_busy_runs_go_on(listen: Any, name: str) -> None:
    is_busy, may_go_on = threading.Event(), threading.Event()

    def dawdle(**facts: Any) -> None:
        is_busy.set()
        may_go_on.wait(2 * PATIENCE)

    listen(name, dawdle)
    worker = threading.Thread(target=work)
    first = living.enqueue()
    worker.start()
    try:
        assert is_busy.wait(PATIENCE)
        runs = [first, *(living.enqueue() for _ in range(3))]
        wait_until(lambda: all(run.refresh().status == "succeeded" for run in runs), message="the runs to succeed")
        assert not may_go_on.is_set()
    finally:
        may_go_on.set()
        worker.join(PATIENCE)

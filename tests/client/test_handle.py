"""``RunHandle``: what it shows, how it waits, and what it says of a run that does not run."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test import TestCase

from django_durable import AsyncContext, Context, Retry, durable_workflow, get_run
from django_durable.client import handle, waiting
from django_durable.client.handle import RunHandle
from django_durable.client.waiting import Usual
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import BlockReason, Status
from django_durable.exceptions import (
    ResultUnavailable,
    RunCancelled,
    RunFailed,
    RunNotFound,
)
from django_durable.models import JournalEntry, Payload, Run, Worker
from django_durable.testing import run_until_idle

pytestmark = pytest.mark.contract
in_database = pytest.mark.django_db(transaction=True)
ONCE = Retry(max_attempts=1)


@durable_workflow(name="handle.order", retry=ONCE, step_retry=ONCE)
def order(ctx: Context, how: str = "well") -> dict[str, Any]:
    ctx.progress(1, 3, "reserved")
    ctx.step("reserve", lambda: (1, 2))
    match how:
        case "fail":
            ctx.step("pay", lambda: dict[str, int]()["card"])
        case "wait":
            ctx.wait_for_event("packed")
        case "sleep":
            ctx.sleep("nap", 3600)
    return {"at": datetime(2024, 5, 1, tzinfo=UTC)}


@durable_workflow(name="handle.annotated", retry=ONCE)
def annotated(ctx: Context) -> None:
    ctx.annotate(customer="gold", placed_at=datetime(2024, 5, 1, tzinfo=UTC))
    ctx.annotate(stage="packing")
    ctx.wait_for_event("packed")
    ctx.annotate(stage="shipped")


# --- looking ---------------------------------------------------------------------------------


@in_database
def test_properties() -> None:
    run = order.enqueue()
    assert (run.workflow, run.status, run.attempt, run.error, run.progress) == (
        "handle.order",
        Status.QUEUED,
        1,
        None,
        None,
    )
    assert isinstance(run.id, UUID)
    run_until_idle()
    # As last read, until it is refreshed.
    assert run.status == Status.QUEUED
    assert run.refresh() is run
    assert str(run.status) == "succeeded"
    assert run.progress == {"done": 1, "total": 3, "message": "reserved"}


@pytest.mark.behaviour("DATA-01j")
@in_database
def test_annotations_are_merged_with_what_is_stored_and_a_fork_has_them_too() -> None:
    run = annotated.enqueue()
    assert run.annotations == {}
    run_until_idle()
    placed = {"customer": "gold", "placed_at": datetime(2024, 5, 1, tzinfo=UTC)}
    assert run.annotations == {**placed, "stage": "packing"}
    run.send_event("packed")
    run_until_idle()
    assert run.annotations == {**placed, "stage": "shipped"}
    assert run.fork("packed").annotations == run.annotations


@pytest.mark.behaviour("RUN-01b", "STEP-08c")
@in_database
def test_steps() -> None:
    run = order.enqueue("fail")
    run_until_idle()
    first, second = run.steps()
    assert (first.path, first.kind, first.status, first.attempts, first.value, first.error) == (
        "reserve",
        "step",
        "succeeded",
        1,
        (1, 2),
        None,
    )
    assert (second.path, second.status, second.value, second.error["type"]) == ("pay", "failed", None, "KeyError")
    assert second.finished_at is not None
    assert first.started_at <= second.started_at <= second.finished_at
    assert abs(first.started_at - run.run.created_at) < timedelta(seconds=60)


@in_database
def test_an_entry_that_cannot_be_read_hides_no_other() -> None:
    """A class that the code no longer has, text that was damaged."""
    run = order.enqueue("fail")
    run_until_idle()
    journal = JournalEntry.objects.filter(run_id=run.id)
    journal.filter(path="reserve").update(value='{"$":"gone.Receipt","v":{}}')
    journal.filter(path="pay").update(error='{"type":')
    first, second = run.steps()
    assert (first.path, first.status, first.attempts, first.value, first.error) == (
        "reserve",
        "succeeded",
        1,
        None,
        None,
    )
    assert first.undecodable.startswith("value: ")
    assert "gone.Receipt" in first.undecodable
    assert (second.path, second.status, second.value, second.error) == ("pay", "failed", None, None)
    assert second.undecodable.startswith("error: damaged text")
    journal.filter(path="pay").update(error=None)
    assert [step.undecodable == "" for step in run.steps()] == [False, True]


@in_database
def test_handles_of_one_run_are_equal() -> None:
    run = order.enqueue()
    assert get_run(run.id) == get_run(str(run.id)) == run
    assert len({run, get_run(run.id), order.enqueue()}) == 2
    assert run != run.id
    assert repr(run) == f"<RunHandle {run.id}>"


@pytest.mark.behaviour("RUN-19b")
@in_database
@pytest.mark.parametrize("bad", [UUID(int=5), str(UUID(int=5)), "x", "", None, 5, b"x", "{}"], ids=repr)
def test_a_run_that_does_not_exist(bad: Any) -> None:
    with pytest.raises(RunNotFound) as caught:
        get_run(bad)
    assert str(caught.value.run_id) == str(bad)


@in_database
def test_a_run_that_is_gone() -> None:
    run = order.enqueue()
    Run.objects.all().delete()
    for ask in (run.refresh, lambda: run.status, run.why, lambda: run.result(timeout=0)):
        with pytest.raises(RunNotFound):
            ask()


# --- result ----------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-01a")
@in_database
def test_the_value() -> None:
    run = order.enqueue()
    run_until_idle()
    assert run.result() == run.result(timeout=5) == {"at": datetime(2024, 5, 1, tzinfo=UTC)}
    assert async_to_sync(run.aresult)() == run.result()


@in_database
def test_a_failure() -> None:
    run = order.enqueue("fail")
    run_until_idle()
    for ask in (run.result, async_to_sync(run.aresult)):
        with pytest.raises(RunFailed) as caught:
            ask()
        assert caught.value.run_id == run.id
        assert caught.value.error["step"] == "pay"
        assert caught.value.error == run.error
        assert "KeyError" in str(caught.value)


@in_database
def test_a_cancellation() -> None:
    run = order.enqueue()
    run.cancel("not needed")
    with pytest.raises(RunCancelled, match="was cancelled: not needed") as caught:
        run.result()
    assert (caught.value.run_id, caught.value.reason) == (run.id, "not needed")


@in_database
@pytest.mark.parametrize("timeout", [0, 0.02, -1])
def test_the_time_out_is_the_caller_s_only(timeout: float) -> None:
    run = order.enqueue()
    for ask in (run.result, async_to_sync(run.aresult)):
        with pytest.raises(TimeoutError, match=rf"Run {run.id} is queued after {timeout:g} s"):
            ask(timeout=timeout)
    assert run.refresh().status == Status.QUEUED
    run_until_idle()
    assert run.result(timeout=0)


@in_database
def test_who_waits_for_what_he_has_just_started_does_not_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Usual()
    usual.rest = 0.001
    monkeypatch.setattr(handle, "_RESULTS", usual)
    monkeypatch.setattr(waiting.time, "monotonic", lambda: 100.0)

    def looks_first(run: RunHandle[Any]) -> bool:
        looks: list[bool] = []
        look = run._is_over
        run._is_over = lambda: looks.append(True) or look()  # type: ignore[func-returns-value, method-assign]
        next(run._pauses(None))
        return bool(looks)

    keyed = order.using(idempotency_key="once")
    assert not looks_first(order.enqueue())
    assert not looks_first(keyed.enqueue())
    assert looks_first(keyed.enqueue())
    assert not any(map(looks_first, order.enqueue_many([{}, {}])))
    assert looks_first(get_run(order.enqueue().id))


@in_database
@pytest.mark.parametrize("is_async", [False, True])
def test_it_waits_for_the_end(is_async: bool) -> None:
    run = order.enqueue()
    seen = threading.Event()
    found: list[Any] = []

    def ask() -> None:
        try:
            look = run._pauses

            def looking(timeout: float | None) -> Any:
                for pause in look(timeout):
                    seen.set()
                    yield pause

            run._pauses = looking  # type: ignore[method-assign]
            found.append(async_to_sync(run.aresult)(30) if is_async else run.result(30))
        finally:
            connection.close()

    asking = threading.Thread(target=ask)
    asking.start()
    assert seen.wait(30)
    run_until_idle()
    asking.join(30)
    assert found == [{"at": datetime(2024, 5, 1, tzinfo=UTC)}]


@in_database
def test_it_is_refused_inside_the_transaction_that_enqueued() -> None:
    with transaction.atomic():
        run = order.enqueue()
        with pytest.raises(ResultUnavailable, match="ask after the commit"):
            run.result()
        with pytest.raises(ResultUnavailable, match=r"run_until_idle\(\) first"):
            async_to_sync(run.aresult)(5)
        run.cancel()
        # What is over is known, also in a transaction.
        with pytest.raises(RunCancelled):
            run.result()


class TestInATestCase(TestCase):
    def test_results_are_there_after_run_until_idle(self) -> None:
        run = order.enqueue()
        run_until_idle()
        assert run.result() == {"at": datetime(2024, 5, 1, tzinfo=UTC)}
        assert async_to_sync(run.aresult)() == run.result()

    def test_without_a_worker_it_is_refused(self) -> None:
        with pytest.raises(ResultUnavailable):
            order.enqueue().result()

    async def test_in_async_tests(self) -> None:
        run = await order.aenqueue()
        with pytest.raises(ResultUnavailable):
            await run.aresult(5)


@in_database
def test_it_is_refused_in_a_workflow() -> None:
    other = order.using(run_after=3600).enqueue()

    @durable_workflow(name="handle.asking", retry=ONCE)
    def asking(ctx: Context) -> None:
        other.result()

    @durable_workflow(name="handle.asking_async", retry=ONCE)
    async def asking_async(ctx: AsyncContext) -> None:
        await other.aresult()

    for workflow in (asking, asking_async):
        run = workflow.enqueue()
        run_until_idle()
        with pytest.raises(RunFailed, match=r"use ctx\.run_workflow\(\)"):
            run.result(timeout=0)


# --- why -------------------------------------------------------------------------------------


def announce(**facts: Any) -> None:
    now = datetime.now(UTC)
    columns = {
        "id": uuid7(),
        "host": "a",
        "pid": 1,
        "queues": ["default"],
        "workflows": ["handle.order"],
        "concurrency": 1,
        "started_at": now,
        "heartbeat_at": now,
    }
    Worker.objects.create(**{**columns, **facts})


@in_database
@pytest.mark.parametrize(
    ("workers", "reason", "text"),
    [
        ([], "queued: no worker", "No worker is alive; start one with manage.py durable_worker."),
        ([{"stopped_at": datetime.now(UTC)}], "queued: no worker", "No worker is alive"),
        ([{"heartbeat_at": datetime(2020, 1, 1, tzinfo=UTC)}], "queued: no worker", "No worker is alive"),
        ([{"queues": ["vip"]}], "queued: no worker", "No live worker serves the queue 'default'."),
        ([{"workflows": ["x"]}], "queued: unknown workflow", "No live worker of its queue knows 'handle.order'."),
        (
            [{"queues": ["vip"]}, {"workflows": []}],
            "queued: unknown workflow",
            "No live worker of its queue knows 'handle.order'.",
        ),
        ([{"workflows": []}, {}], "queued", "It is next when a worker of its queue has a free slot."),
    ],
)
def test_why_a_queued_run_does_not_run(workers: list[dict[str, Any]], reason: str, text: str) -> None:
    for facts in workers:
        announce(**facts)
    why = order.enqueue().why()
    assert why.reason == reason
    assert text in why.text


@in_database
def test_why_of_a_suspect() -> None:
    run = order.enqueue()
    Run.objects.update(suspect=True)
    announce()
    assert run.why().reason == "queued: suspect"


@in_database
def test_why_of_runs_that_wait() -> None:
    later = order.using(run_after=3600).enqueue()
    assert later.why().reason == "scheduled"
    assert later.run.wake_at is not None
    assert f"It starts at {later.run.wake_at:%Y-%m-%d %H:%M:%S}" in later.why().text
    waiting, sleeping = order.enqueue("wait"), order.enqueue("sleep")
    run_until_idle()
    assert waiting.why().reason == "waiting: event"
    assert waiting.why().text == "It waits for the event 'packed', and goes on when that is sent."
    assert sleeping.why().reason == "waiting: sleep"
    assert sleeping.why().text.startswith("It sleeps at 'nap' until 20")


@in_database
def test_why_of_retries_and_children() -> None:
    def refuse() -> None:
        raise OSError

    @durable_workflow(name="handle.retrying", retry=Retry(initial=60))
    def retrying(ctx: Context, how: str) -> None:
        if how == "step":
            ctx.step("refuse", refuse)
        if how == "run":
            refuse()
        ctx.run_workflow("child", order, "wait")

    step, whole, parent = (retrying.enqueue(how) for how in ("step", "run", "child"))
    run_until_idle()
    assert [run.why().reason for run in (step, whole, parent)] == ["waiting: retry", "waiting: retry", "waiting: child"]
    assert step.why().text.startswith("Step 'refuse' failed and is tried again at 20")
    assert whole.why().text.startswith("The run failed and is tried again at 20")
    assert parent.why().text == "It waits for its child run at 'child', and goes on when that is over."


@in_database
def test_why_of_a_wait_that_outlasts_the_deadline() -> None:
    @durable_workflow(name="handle.bounded", timeout=60)
    def bounded(ctx: Context, seconds: int) -> None:
        ctx.wait_for_event("approval", event="packed", timeout=seconds)

    short, long = bounded.enqueue(30), bounded.enqueue(90)
    run_until_idle()
    named = "It waits for the event 'packed' (at 'approval'), and "
    assert short.why().text.startswith(f"{named}gives up at 20")
    assert long.run.deadline_at is not None
    ends = f"{long.run.deadline_at:%Y-%m-%d %H:%M:%S} UTC"
    assert long.why().text == f"{named}goes on when that is sent. At its deadline, {ends}, it fails."


@in_database
def test_why_of_a_running_one() -> None:
    seen: list[Any] = []

    @durable_workflow(name="handle.looking")
    def looking(ctx: Context) -> None:
        seen.append(get_run(ctx.run_id).why())

    looking.enqueue()
    run_until_idle()
    assert seen[0].reason == "running"
    assert "its lease stands until 2" in seen[0].text


@pytest.mark.behaviour("RUN-18a")
@in_database
@pytest.mark.parametrize(
    ("facts", "reason", "text"),
    [
        ({}, "running", "It is being worked on; its lease stands until 20"),
        ({"beat": 15}, "running", "It is being worked on"),
        ({"beat": 31}, "running: worker silent", "Its worker a:1 has not been heard of since 20"),
        ({"stopped": 1}, "running: worker silent", "Its worker a:1 stopped at 20"),
    ],
)
def test_why_of_a_running_one_whose_worker_is_silent(facts: dict[str, int], reason: str, text: str) -> None:
    now, worker = datetime.now(UTC), uuid7()
    ago = {name: now - timedelta(seconds=seconds) for name, seconds in facts.items()}
    announce(id=worker, heartbeat_at=ago.get("beat", now), stopped_at=ago.get("stopped"))
    announce()
    run = order.enqueue()
    ends = now + timedelta(minutes=1)
    Run.objects.update(status=Status.RUNNING, lease_token=uuid7(), leased_by=worker, lease_expires_at=ends)
    why = run.why()
    assert (why.reason, why.text[: len(text)]) == (reason, text)
    if reason != "running":
        assert why.text.endswith(f"; it is taken up when its lease ends at {ends:%Y-%m-%d %H:%M:%S} UTC.")


@pytest.mark.behaviour("RUN-18b")
@in_database
@pytest.mark.parametrize("moved", ["finished_at", "started_at", "wake_at"])
def test_why_of_one_that_comes_to_nothing_while_its_worker_lives(moved: str) -> None:
    now, worker = datetime.now(UTC), uuid7()
    run = order.enqueue("wait")
    run_until_idle()
    announce(id=worker, heartbeat_at=now)
    lease = {"lease_token": uuid7(), "leased_by": worker, "lease_expires_at": now + timedelta(minutes=1)}
    old, then = now - timedelta(hours=3), now - timedelta(hours=2)
    Run.objects.update(status=Status.RUNNING, waiting_on="", queued_at=old, started_at=old, **lease)
    for at, ending in ((then, f" It has journaled nothing since {then:%Y-%m-%d %H:%M:%S} UTC."), (now, " UTC.")):
        JournalEntry.objects.update(**{"started_at": old, "finished_at": None, "wake_at": None, moved: at})
        text = run.why().text
        assert text.startswith("It is being worked on; its lease stands until 2") and text.endswith(ending)
        assert ("journaled" in text) is (at == then)


@in_database
@pytest.mark.parametrize("reason", list(BlockReason))
def test_why_of_a_blocked_one(reason: BlockReason) -> None:
    run = order.enqueue()
    Run.objects.update(status=Status.BLOCKED, block_reason=reason)
    why = run.why()
    assert why.reason == f"blocked: {reason}"
    assert len(why.text) > 20
    Payload.objects.create(run_id=run.id, kind="block", data='{"message":"told here"}')
    told = reason in (BlockReason.DIVERGED, BlockReason.UNDECODABLE)
    assert (run.why().text == "told here. A worker with other code tries it again, and so does a resume.") is told


@in_database
def test_why_of_paused_and_finished_ones() -> None:
    paused, done = order.enqueue(), order.enqueue()
    Run.objects.filter(pk=paused.id).update(status=Status.PAUSED)
    assert paused.why().reason == "paused"
    run_until_idle()
    assert done.why().reason == "finished"
    assert done.why().text.startswith("It is over: succeeded at 20")

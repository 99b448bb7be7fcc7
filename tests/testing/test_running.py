from __future__ import annotations

import threading
from typing import Any
from unittest.mock import patch

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.test import override_settings

from django_durable import durable_workflow, signals
from django_durable.client import pushing
from django_durable.exceptions import ContextMisuse
from django_durable.models import Run
from django_durable.testing import NotIdle, arun_until_idle, crash_after, run_until_idle, travel
from tests.app import workflows as app
from tests.app.models import Counter
from tests.testing import flows

pytestmark = pytest.mark.usefixtures("any_db")


def test_it_works_what_is_due_and_counts_the_claims() -> None:
    runs = app.doubling.enqueue_many([{"number": 1}, {"number": 2}])
    assert run_until_idle() == 2
    assert [run.result() for run in runs] == [2, 4]
    assert run_until_idle() == 0


def test_every_queue_is_served() -> None:
    run = app.doubling.using(queue="somewhere-else").enqueue(1)
    run_until_idle()
    assert run.result() == 2


@pytest.mark.parametrize(
    ("workflow", "result"), [(flows.three_steps, "abc"), (flows.three_steps_async, "ab1"), (flows.counting_async, 1)]
)
def test_everything_happens_in_this_thread_and_on_its_connection(workflow: Any, result: Any) -> None:
    flows.threads.clear()
    with connection.execute_wrapper(note_thread := NoteThread()):
        run = workflow.enqueue()
        run_until_idle()
    assert run.result() == result
    assert flows.threads | note_thread.seen == {threading.get_ident()}


class NoteThread:
    def __init__(self) -> None:
        self.seen: set[int] = set()

    def __call__(self, execute: Any, *args: Any) -> Any:
        self.seen.add(threading.get_ident())
        return execute(*args)


def test_it_works_from_async_tests() -> None:
    async def enqueue_and_run() -> Any:
        run = await flows.three_steps_async.aenqueue()
        assert await arun_until_idle() == 1
        return await sync_to_async(run.result)()

    assert async_to_sync(enqueue_and_run)() == "ab1"


def test_children_and_events_need_no_wake_on_commit() -> None:
    parent, listening = app.parent.enqueue(21), app.listening.enqueue()
    run_until_idle()
    listening.send_event("packed", "parcel")
    run_until_idle(skip_waits=True)
    assert parent.result()[1] == 42
    assert listening.result() == ["parcel", None]


def test_what_is_started_meanwhile_is_pushed_nowhere() -> None:
    run = flows.starting_itself.enqueue()
    with patch.object(pushing, "current_queue") as current_queue, pytest.raises(NotIdle):
        run_until_idle(max_claims=50)
    assert not current_queue.return_value.push.called
    assert run.result() is None


def test_redis_is_not_needed() -> None:
    dead = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    with override_settings(CACHES=dead, DURABLE={"QUEUE": "redis"}):
        run = flows.three_steps.enqueue()
        run_until_idle()
    assert run.result() == "abc"


def test_a_run_that_wakes_itself_for_ever_is_told_of() -> None:
    run = flows.ever_again.enqueue()
    assert run_until_idle() == 1
    with pytest.raises(NotIdle, match=rf"run {run.id} of flows\.ever_again"):
        run_until_idle(skip_waits=True, max_claims=100)
    assert run.refresh().status == "waiting"


def test_runs_that_start_each_other_for_ever_are_told_of() -> None:
    flows.starting_itself.enqueue()
    with pytest.raises(NotIdle, match=r"after 21 claims, 1 of them of run .* of flows\.starting_itself"):
        run_until_idle(max_claims=20)


def test_waits_are_skipped_only_when_asked() -> None:
    run = flows.patient.enqueue(48)
    assert run_until_idle() == 1
    assert run.refresh().status == "waiting"
    assert run_until_idle(skip_waits=True) == 1
    assert run.refresh().status == "succeeded"


@pytest.mark.behaviour("RUN-02b")
def test_runs_that_start_later_are_waited_for_as_well() -> None:
    run = flows.three_steps.using(run_after=7200).enqueue()
    assert run_until_idle() == 0
    assert run_until_idle(skip_waits=True) == 1
    assert run.result() == "abc"


def test_time_is_put_back_after_a_jump_unless_in_travel() -> None:
    def is_moved() -> bool:
        from django_durable.core import clock

        return clock.offset().total_seconds() > 3600

    flows.patient.enqueue(2)
    run_until_idle(skip_waits=True)
    assert not is_moved()
    with travel():
        flows.patient.enqueue(2)
        run_until_idle(skip_waits=True)
        assert is_moved()
    assert not is_moved()


def test_a_statement_that_fails_in_a_step_fails_the_step_alone() -> None:
    run = flows.breaking_the_transaction.enqueue()
    run_until_idle()
    assert run.result() == "StepFailed"
    assert run.steps()[0].error["type"].endswith("IntegrityError")
    # Outside of a TestCase the first row of each attempt would stand: there the second attempt fails at its first.
    assert Counter.objects.filter(name="twin").count() == (0 if connection.in_atomic_block else 1)


def test_atomic_steps_are_atomic() -> None:
    run = flows.counting.enqueue()
    assert run_until_idle() == 1
    assert (run.result(), Counter.objects.get(name="atomic").value) == (1, 1)


def test_a_debugger_may_take_its_time_after_an_atomic_step() -> None:
    if connection.vendor == "postgresql":
        flows.counting.enqueue()
        run_until_idle()
        with connection.cursor() as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("0",)


@pytest.mark.behaviour("STEP-10a", "DATA-03d")
def test_signals_are_sent_here_and_now() -> None:
    heard: list[str] = []

    def hear(signal: Any, **facts: Any) -> None:
        heard.append(next(name for name, value in vars(signals).items() if value is signal))

    for signal in (signals.run_started, signals.step_succeeded, signals.run_succeeded):
        signal.connect(hear, sender=app.doubling)
    try:
        app.doubling.enqueue(1)
        run_until_idle()
    finally:
        for signal in (signals.run_started, signals.step_succeeded, signals.run_succeeded):
            signal.disconnect(hear, sender=app.doubling)
    assert heard == ["run_started", "step_succeeded", "run_succeeded"]


@durable_workflow(retry=flows.ONCE)
def asking_for_trouble(ctx: Any) -> None:
    run_until_idle()


def test_it_is_refused_inside_a_workflow() -> None:
    run = asking_for_trouble.enqueue()
    run_until_idle()
    assert run.error is not None
    assert run.error["type"].endswith(ContextMisuse.__name__)


def test_what_another_process_has_lost_is_reaped() -> None:
    run = flows.three_steps.enqueue()
    with patch("django_durable.testing.running.work", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        run_until_idle()
    assert run.refresh().status == "running"
    with travel() as clock:
        clock.advance(days=101 * 365)
        assert run_until_idle() == 1
        assert run.result() == "abc"


def test_an_error_that_leaves_it_gives_the_run_back() -> None:
    run = flows.three_steps.enqueue()
    with (
        patch("django_durable.testing.attempting.run_attempt", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        run_until_idle()
    assert run.refresh().status == "queued"
    assert not Run.objects.get(pk=run.id).suspect
    assert run_until_idle() == 1


def test_suspects_are_claimed_as_well() -> None:
    run = flows.three_steps.enqueue()
    with crash_after("a"):
        assert run_until_idle() == 2
    assert run.result() == "abc"

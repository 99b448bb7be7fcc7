"""Starts that meet another run of their key: ``debounce`` and ``singleton``, whoever starts what at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_durable import Context, Retry, durable_workflow, enqueue
from django_durable.core import clock
from django_durable.exceptions import RunFailed
from django_durable.models import Audit, Limit, Run, Tag
from django_durable.signals import run_cancelled, run_enqueued
from django_durable.store import recovery
from django_durable.store.database import Database, PrivateDatabase
from django_durable.testing import run_until_idle, travel
from tests.app.limits import newest, one_live, settled
from tests.store.parallel import SECONDS, Threads, answer, session, wait_until_blocked
from tests.store.rows import at, columns, fresh, payload, status_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as threads:
        yield threads


@pytest.fixture
def db() -> Iterator[PrivateDatabase]:
    db = PrivateDatabase()
    yield db
    db.close()


@pytest.fixture
def later() -> Iterator[Callable[[float], None]]:
    yield lambda seconds: clock.set_offset(clock.offset() + timedelta(seconds=seconds))
    clock.set_offset(timedelta(0))


def starts_in(run_id: UUID) -> timedelta:
    wake_at = fresh(run_id).wake_at
    assert wake_at is not None
    return wake_at - at(clock.offset())


def hold(run_id: UUID) -> None:
    """As a worker does that has claimed it."""
    Run.objects.filter(pk=run_id).update(status="running", **columns("running"))


# --- debounce --------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-12i")
def test_each_start_puts_the_run_off_and_the_last_input_wins(later: Callable[[float], None]) -> None:
    first = settled.using(tags=["draft"], priority=3).enqueue("a", text="one")
    later(20)
    second = settled.using(tags=["final"], timeout=60).enqueue("a", text="two")
    assert second.id == first.id
    run = fresh(first.id)
    assert (run.status, run.priority, run.timeout) == ("scheduled", 0, 60)
    # Not put off it would start in ten.
    assert timedelta(seconds=15) < starts_in(first.id) <= timedelta(seconds=30)
    assert run.deadline_at - run.wake_at == timedelta(seconds=60)
    assert list(Tag.objects.values_list("name", flat=True)) == ["final"]
    later(20)
    run_until_idle()
    assert status_of(first.id) == "scheduled"
    later(11)
    run_until_idle()
    assert first.result() == "two"


@pytest.mark.behaviour("RUN-12i")
def test_only_runs_of_the_key_that_have_not_come_due_are_put_off(db: PrivateDatabase) -> None:
    first, other = settled.enqueue("a").id, settled.enqueue("b").id
    assert first != other
    for status in ("queued", "running"):
        if status == "queued":
            Run.objects.filter(pk=first).update(wake_at=at(timedelta(seconds=-1)))
            recovery.promote(db, 10)
        else:
            hold(first)
        second = settled.enqueue("a", text="later").id
        assert second not in {first, other}
        assert payload(first, "input") != payload(second, "input")
        Run.objects.filter(pk=second).delete()


@pytest.mark.behaviour("RUN-12i")
def test_a_start_that_is_rolled_back_puts_nothing_off() -> None:
    first = settled.enqueue("a", text="one")
    before = fresh(first.id).wake_at
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        settled.using(tags=["x"]).enqueue("a", text="two")
        raise ZeroDivisionError
    assert fresh(first.id).wake_at == before
    assert not Tag.objects.exists()
    with travel() as moved:
        moved.advance(seconds=31)
        run_until_idle()
    assert first.result() == "one"


def test_many_at_once_are_one_start_after_the_other() -> None:
    said = [{"tenant": tenant, "text": str(number)} for number in range(3) for tenant in "ba"]
    runs = settled.enqueue_many(said)
    assert len({run.id for run in runs}) == Run.objects.count() == 2
    with travel() as moved:
        moved.advance(seconds=31)
        run_until_idle()
    assert [run.result() for run in runs] == ["2"] * 6


# --- singleton -------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-12j")
@pytest.mark.parametrize("status", ["scheduled", "queued", "running", "waiting", "paused", "blocked"])
def test_while_a_run_is_live_a_start_gives_that_one(status: str) -> None:
    first = one_live.enqueue("a", text="one").id
    Run.objects.update(status=status, **columns(status))
    assert one_live.enqueue("a", text="two").id == first
    assert enqueue("app.one_live", tenant="a").id == first
    assert one_live.enqueue("b").id != first
    assert Run.objects.count() == 2


@pytest.mark.behaviour("RUN-12j")
@pytest.mark.parametrize("how", ["over", "asked to stop"])
def test_a_run_that_is_over_or_about_to_be_is_in_nobodys_way(how: str) -> None:
    first = one_live.enqueue("a")
    run_until_idle()
    if how == "over":
        first.send_event("go")
        run_until_idle()
    else:
        hold(first.id)
        first.cancel()
        assert status_of(first.id) == "running"
    second = one_live.enqueue("a")
    assert second.id != first.id
    assert status_of(second.id) == "queued"


def test_of_many_at_once_the_first_of_each_key_starts() -> None:
    runs = one_live.enqueue_many([{"tenant": tenant} for tenant in "abab"])
    assert [run.id for run in runs[2:]] == [run.id for run in runs[:2]]
    assert Run.objects.count() == 2


@pytest.mark.behaviour("RUN-12k")
def test_a_start_cancels_the_live_run_and_waits_until_its_code_has_ended() -> None:
    sent: list[Any] = []

    def hear(signal: Any, run_id: UUID, **_: Any) -> None:
        sent.append((signal is run_cancelled, run_id))

    for signal in (run_enqueued, run_cancelled):
        signal.connect(hear)
    try:
        queued = newest.enqueue("a", text="one")
        running = newest.enqueue("a", text="two")
    finally:
        for signal in (run_enqueued, run_cancelled):
            signal.disconnect(hear)
    assert (status_of(queued.id), status_of(running.id)) == ("cancelled", "queued")
    assert sorted(sent) == sorted([(False, queued.id), (False, running.id), (True, queued.id)])
    assert Audit.objects.get(run_id=queued.id, verb="cancel").reason == (
        f"replaced by run {running.id} of its singleton workflow"
    )
    hold(running.id)
    last = newest.enqueue("a", text="three")
    assert fresh(running.id).cancel_requested_at is not None
    assert run_until_idle() == 0, "never two at a time"
    Run.objects.filter(pk=running.id).update(lease_expires_at=at(timedelta(hours=-1)))
    run_until_idle()
    assert (status_of(running.id), status_of(last.id)) == ("cancelled", "waiting")


@pytest.mark.behaviour("RUN-12k")
def test_one_that_waits_is_wound_up_before_the_new_one_begins() -> None:
    waiting = newest.enqueue("a")
    run_until_idle()
    assert status_of(waiting.id) == "waiting"
    last = newest.enqueue("a")
    assert (status_of(waiting.id), status_of(last.id)) == ("queued", "queued")
    run_until_idle()
    assert (status_of(waiting.id), status_of(last.id)) == ("cancelled", "waiting")
    assert fresh(waiting.id).finished_at <= fresh(last.id).started_at


def trace(what: str) -> None:
    done.append(what)


done: list[str] = []


def leaves(ctx: Context, number: int) -> None:
    ctx.step("do", trace, f"do {number}", compensate=lambda _: trace(f"undo {number}"))
    ctx.wait_for_event("go")


newest_undone = durable_workflow(name="meeting.newest_undone", singleton="cancel_running")(leaves)
skipping_undone = durable_workflow(name="meeting.skipping_undone", singleton="skip")(leaves)


@pytest.mark.behaviour("RUN-12k")
@pytest.mark.parametrize("priority", [0, 10])
@pytest.mark.parametrize("option", ["cancel_running", "skip"])
def test_what_the_old_one_did_is_undone_before_the_new_one_begins(option: str, priority: int) -> None:
    done.clear()
    workflow = newest_undone if option == "cancel_running" else skipping_undone
    first = workflow.enqueue(1)
    run_until_idle()
    if option == "skip":
        first.cancel()
    second = workflow.using(priority=priority).enqueue(2)
    run_until_idle()
    assert done == ["do 1", "undo 1", "do 2"]
    assert (status_of(first.id), status_of(second.id)) == ("cancelled", "waiting")


def test_a_start_that_is_rolled_back_cancels_nothing() -> None:
    first = newest.enqueue("a")
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        newest.enqueue("a")
        raise ZeroDivisionError
    assert fresh(first.id).cancel_requested_at is None
    assert Run.objects.count() == 1


# --- at the same moment ----------------------------------------------------------------------


class OpenStart:
    """Starts a run in a transaction that stays open until it is told how to end."""

    def __init__(self, threads: Threads, workflow: Any) -> None:
        self.started, self.end = threading.Event(), threading.Event()
        self.fails = False
        self.run_id: UUID | None = None
        self.session: Any = None
        self.done: Future[None] = threads.start(self._start, workflow)
        assert self.started.wait(SECONDS)

    def _start(self, workflow: Any) -> None:
        with transaction.atomic():
            self.run_id = workflow.enqueue("a", text="first").id
            self.session = session(Database())
            self.started.set()
            assert self.end.wait(SECONDS)
            transaction.set_rollback(self.fails)

    def finish(self, *, fails: bool) -> None:
        self.fails = fails
        self.end.set()
        answer(self.done)


@pytest.mark.behaviour("RUN-12l")
@pytest.mark.parametrize("fails", [False, True], ids=["commits", "rolls back"])
@pytest.mark.parametrize("workflow", [settled, one_live, newest], ids=["debounce", "skip", "cancel_running"])
@pytest.mark.parametrize("is_known", [False, True], ids=["new key", "known key"])
def test_who_starts_meanwhile_waits_for_how_the_first_start_ends(
    threads: Threads, db: PrivateDatabase, workflow: Any, fails: bool, is_known: bool
) -> None:
    if is_known:
        workflow.enqueue("a")
        Run.objects.all().delete()
    first = OpenStart(threads, workflow)
    second = threads.start(lambda: workflow.enqueue("a", text="second").id)
    wait_until_blocked(db, first.session)
    assert not second.done()
    first.finish(fails=fails)
    run_id = answer(second)
    assert (run_id == first.run_id) is (not fails and workflow is not newest)
    live = Run.objects.exclude(status="cancelled").values_list("pk", flat=True)
    assert list(live) == [run_id]
    text = "first" if workflow is one_live and not fails else "second"
    assert text in (payload(run_id, "input") or "")


@pytest.mark.behaviour("RUN-12l")
@pytest.mark.parametrize("workflow", [settled, one_live, newest], ids=["debounce", "skip", "cancel_running"])
def test_of_many_who_start_at_once_one_run_is_live(threads: Threads, workflow: Any) -> None:
    barrier = threading.Barrier(4)

    def together(text: str) -> UUID:
        barrier.wait(SECONDS)
        run_id: UUID = workflow.enqueue("a", text=text).id
        return run_id

    ids = {answer(one) for one in [threads.start(together, str(number)) for number in range(4)]}
    [live] = Run.objects.exclude(status="cancelled").values_list("pk", flat=True)
    assert live in ids
    assert len(ids) == (4 if workflow is newest else 1)


# --- what goes together ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workflow", "options", "text"),
    [
        (settled, {"idempotency_key": "k"}, "debounce of app.settled .* takes no idempotency_key"),
        (one_live, {"idempotency_key": "k"}, "skip of app.one_live .* takes no idempotency_key"),
        (newest, {"idempotency_key": "k"}, "cancel_running of app.newest .* takes no idempotency_key"),
        (settled, {"run_after": 5}, "debounce of app.settled .* takes no run_after"),
        (newest, {"run_after": 5}, "cancel_running of app.newest .* takes no run_after"),
    ],
)
def test_what_would_say_two_things_about_one_start_is_refused(workflow: Any, options: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        workflow.using(**options).enqueue("a")
    assert not Run.objects.exists()
    assert not Limit.objects.exists()


def test_a_singleton_may_start_later_and_is_live_until_then() -> None:
    first = one_live.using(run_after=60).enqueue("a")
    assert one_live.enqueue("a").id == first.id
    assert status_of(first.id) == "scheduled"


@durable_workflow(name="meeting.starting")
def starting(ctx: Context, fails: bool = False) -> str:
    def start() -> str:
        run_id = str(one_live.enqueue("a", text="from a step").id)
        if fails and not flaws:
            flaws.append(run_id)
            raise ConnectionError("after the start")
        return run_id

    return ctx.step("start", start, retry=Retry(initial=60, jitter=0))


flaws: list[str] = []


@pytest.mark.behaviour("RUN-12j")
def test_a_step_that_is_tried_again_gives_the_run_that_it_met_the_first_time() -> None:
    flaws.clear()
    met = one_live.enqueue("a")
    run_until_idle()
    run = starting.enqueue(fails=True)
    run_until_idle()
    assert flaws == [str(met.id)]
    met.send_event("go")
    run_until_idle()
    assert status_of(met.id) == "succeeded"
    with travel() as moved:
        moved.advance(seconds=61)
        run_until_idle()
    assert run.result() == str(met.id), "although that one is over by now"
    assert Run.objects.filter(workflow="app.one_live").count() == 1


@durable_workflow(name="meeting.parent")
def parent(ctx: Context, how: str, option: str) -> Any:
    workflow: Any = {"debounce": settled, "skip": one_live, "cancel_running": newest}[option]
    if how == "map":
        return ctx.map("child", workflow, ["a"])
    return getattr(ctx, how)("child", workflow, "a")


@pytest.mark.behaviour("RUN-12m")
@pytest.mark.parametrize("how", ["run_workflow", "start_workflow", "map"])
@pytest.mark.parametrize("option", ["debounce", "skip", "cancel_running"])
def test_a_child_is_a_run_of_its_own_and_such_workflows_are_refused(how: str, option: str) -> None:
    run = parent.enqueue(how, option)
    run_until_idle()
    assert status_of(run.id) == "failed"
    with pytest.raises(RunFailed, match=f"CannotBeChild: .* cannot be a child: with {option}"):
        run.result()
    assert run.attempt == 1
    assert Run.objects.count() == 1


def test_what_an_operator_starts_is_started_and_never_worked_on_beside_another() -> None:
    first = one_live.enqueue("a")
    run_until_idle()
    again = first.rerun()
    hold(first.id)
    assert status_of(again.id) == "queued"
    assert run_until_idle() == 0
    put_off = settled.enqueue("a")
    assert status_of(put_off.rerun().id) == "queued"
    assert status_of(put_off.id) == "scheduled"
    assert status_of(first.id) == "running"
    assert status_of(newest.enqueue("b").rerun().id) == "queued"

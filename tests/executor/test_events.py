"""Waits for several events, answers and polls on a real database: both forms of workflow, on every backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_durable import (
    PENDING,
    AsyncContext,
    Break,
    Context,
    Continue,
    Outcome,
    Retry,
    current_step,
    durable_workflow,
)
from django_durable.client.events import EventHandle
from django_durable.client.recorded import Recorded
from django_durable.core.journal.outcomes import Suspended
from django_durable.core.journal.states import Status
from django_durable.exceptions import ContextMisuse, EventUnanswered, ResultUnavailable, RunFailed, RunNotFound
from django_durable.executor.replaying import replay
from django_durable.models import Event, JournalEntry, Run
from django_durable.testing import crash_after, force_replay, run_until_idle, travel
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions
from tests.core.driving import NOON, RUN_ID, World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
ONCE = Retry(max_attempts=1)
both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
calls: list[Any] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def note(what: Any) -> Any:
    calls.append(what)
    return what


# --- several ---------------------------------------------------------------------------------


@durable_workflow(name="events.gather", retry=ONCE)
def gather(ctx: Context, names: list[str], count: int, timeout: float | None = None) -> Any:
    events = ctx.wait_for_events("replies", events=names, count=count, timeout=timeout)
    return [[event.name, event.payload] for event in events]


@durable_workflow(name="events.gather_async", retry=ONCE)
async def gather_async(ctx: AsyncContext, names: list[str], count: int, timeout: float | None = None) -> Any:
    events = await ctx.wait_for_events("replies", events=names, count=count, timeout=timeout)
    return [[event.name, event.payload] for event in events]


def gathering(is_async: bool, *arguments: Any) -> Any:
    return (gather_async if is_async else gather).enqueue(*arguments)


@pytest.mark.behaviour("WAIT-02c", "WAIT-02d")
@both
def test_any_of_the_names_wakes_it_and_each_event_is_taken_once(is_async: bool) -> None:
    run = gathering(is_async, ["yes", "no"], 3)
    run.send_event("yes", "before")
    run_until_idle()
    for name, payload in (("other", 0), ("no", 1)):
        run.send_event(name, payload)
        run_until_idle()
        assert run.refresh().status == Status.WAITING
    assert run.why().reason == "waiting: event"
    run.send_event("yes", 2)
    run.send_event("no", "one too many")
    run_until_idle()
    assert run.result(timeout=0) == [["yes", "before"], ["no", 1], ["yes", 2]]
    places = Event.objects.filter(run_id=run.id).order_by("id").values_list("consumed_by", flat=True)
    assert list(places) == ["replies%event[0]", "", "replies%event[1]", "replies%event[2]", ""]
    assert JournalEntry.objects.filter(run_id=run.id).count() == 1


def test_a_wait_that_is_not_full_is_claimed_for_each_event_and_not_more() -> None:
    run = gathering(False, ["a", "b"], 3)
    run_until_idle()
    claims = run.refresh().run.claims
    for _ in range(2):
        run.send_event("b")
        assert run_until_idle() == 1
    # Nothing is left to wake it: neither what was taken nor what others wait for.
    run.send_event("other")
    assert run_until_idle() == 0
    assert run.refresh().run.claims == claims + 2


HARD = ["50%", "a_b", "a", "A", "back\\slash", "quote'", '"', "naïve ✓"]
"""Names that a pattern, a quote or a part of another could be taken for."""


@pytest.mark.parametrize("name", HARD)
def test_only_a_whole_name_wakes(name: str) -> None:
    others = [f"{name}x", f"x{name}", name.swapcase() + "-", "50", "aXb"]
    run = gathering(False, [f"{name}-1", name, f"1-{name}"], 1)
    run_until_idle()
    for other in others:
        run.send_event(other)
        assert run.refresh().status == Status.WAITING, other
    run.send_event(name, "it")
    assert run.refresh().status == Status.QUEUED
    run_until_idle()
    assert run.result(timeout=0) == [[name, "it"]]


@pytest.mark.behaviour("WAIT-02g")
@both
@pytest.mark.parametrize("sent", [0, 2])
def test_fewer_at_the_time_out(is_async: bool, sent: int) -> None:
    run = gathering(is_async, ["a", "b"], 5, 60)
    with travel() as clock:
        run_until_idle()
        for number in range(sent):
            run.send_event("ab"[number], number)
            run_until_idle()
        clock.advance(seconds=50)
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        clock.advance(seconds=12)
        run_until_idle()
        assert run.result(timeout=0) == [["a", 0], ["b", 1]][:sent]


@durable_workflow(name="events.share", retry=ONCE)
def share(ctx: Context, kind: str) -> Any:
    def branch(ctx: Context) -> Any:
        return [event.payload for event in ctx.wait_for_events("note", events=["note", "memo"], count=2)]

    found = getattr(ctx, kind)("all", {"a": branch, "b": branch})
    return sorted(found["a"] + found["b"]) if kind == "join" else found[1]


@pytest.mark.parametrize("kind", ["join", "race"])
def test_branches_that_wait_for_the_same_names(kind: str) -> None:
    run = share.enqueue(kind)
    run_until_idle()
    for number in range(4 if kind == "join" else 2):
        assert run.refresh().status == Status.WAITING
        run.send_event("note" if number % 2 else "memo", number)
        run_until_idle()
    taken = Event.objects.filter(run_id=run.id).exclude(consumed_at=None)
    assert taken.count() == taken.values("consumed_by").distinct().count()
    assert run.result(timeout=0) == ([0, 1, 2, 3] if kind == "join" else [0, 1])


@both
def test_every_commit_may_be_the_last_of_a_process(is_async: bool) -> None:
    run = gathering(is_async, ["a"], 3)
    with force_replay():
        for number in range(3):
            run.send_event("a", number)
            run_until_idle()
    assert run.result(timeout=0) == [["a", 0], ["a", 1], ["a", 2]]


@durable_workflow(name="events.own", retry=ONCE)
def own(ctx: Context) -> Any:
    handle = own_handle(ctx.run_id)
    ctx.step("first", handle.send_event, "mail", 1)
    first = ctx.wait_for_events("some", events=["mail", "call"], count=2, timeout=3600)
    return [event.payload for event in first]


def own_handle(run_id: Any) -> Any:
    from django_durable import get_run

    return get_run(run_id)


def test_what_comes_during_execution_and_while_a_replay_is_under_way() -> None:
    run = own.enqueue()
    run.send_event("call", 0)
    with crash_after("first"):
        run_until_idle()
    assert run.result(timeout=0) == [0, 1]


# --- answers ---------------------------------------------------------------------------------


@durable_workflow(name="events.answer", retry=ONCE, step_retry=ONCE)
def answer(ctx: Context, how: str) -> None:
    event = ctx.wait_for_event("question")
    match how:
        case "at once":
            event.complete({"to": event.payload, "at": timedelta(1)})
        case "in a block":
            ctx.try_block("block", lambda ctx: (event.complete("in a block"), ctx.step("work", note, 1))[1])
        case "in a branch":
            ctx.join("both", {"a": lambda ctx: event.complete("in a branch"), "b": lambda ctx: ctx.step("w", note, 1)})
        case "in a turn":
            ctx.loop("turns", lambda ctx, state: (event.complete("in a turn"), Break())[1])
        case "with an atomic step":
            event.complete("with an atomic step")
            ctx.step("atomic", note, 1, atomic=True)
            ctx.wait_for_event("never")
        case "and fail":
            event.complete("and fail")
            raise ValueError
        case "twice":
            event.complete(1)
            event.complete(2)
        case "fail":
            raise ValueError
    ctx.step("after", note, "after")


@durable_workflow(name="events.answer_async", retry=ONCE, step_retry=ONCE)
async def answer_async(ctx: AsyncContext, how: str) -> None:
    event = await ctx.wait_for_event("question")

    async def branch(ctx: AsyncContext) -> None:
        event.complete(how)

    async def work(ctx: AsyncContext) -> None:
        await ctx.step("work", note, 1)

    async def turn(ctx: AsyncContext, state: Any) -> Any:
        event.complete(how)
        return Break()

    match how:
        case "at once":
            event.complete({"to": event.payload, "at": timedelta(1)})
        case "in a block":
            await ctx.try_block("block", branch)
        case "in a branch":
            await ctx.join("both", {"a": branch, "b": work})
        case "in a turn":
            await ctx.loop("turns", turn)
        case "with an atomic step":
            event.complete(how)
            await ctx.step("atomic", note, 1, atomic=True)
            await ctx.wait_for_event("never")
        case "and fail":
            event.complete(how)
            raise ValueError
    await ctx.step("after", note, "after")


def asked(is_async: bool, how: str) -> tuple[Any, EventHandle]:
    run = (answer_async if is_async else answer).enqueue(how)
    return run, run.send_event("question", "Ada")


@pytest.mark.behaviour("WAIT-02k")
@both
def test_the_sender_reads_the_answer(is_async: bool) -> None:
    _, event = asked(is_async, "at once")
    run_until_idle()
    for ask in (event.response, async_to_sync(event.aresponse)):
        assert ask(timeout=0) == {"to": "Ada", "at": timedelta(1)}
    row = Event.objects.get()
    assert row.answered_at is not None
    assert row.answered_at >= row.consumed_at


HOWS = ["in a block", "in a branch", "in a turn", "with an atomic step", "and fail"]


@both
@pytest.mark.parametrize("how", HOWS)
def test_from_wherever_in_the_workflow(is_async: bool, how: str) -> None:
    _, event = asked(is_async, how)
    run_until_idle()
    assert event.response(timeout=0) == how


@pytest.mark.behaviour("WAIT-02m")
@both
@pytest.mark.parametrize("how", HOWS)
def test_a_replay_from_any_commit_answers_once(is_async: bool, how: str) -> None:
    run, event = asked(is_async, how)
    with force_replay():
        run_until_idle()
    assert event.response(timeout=0) == how
    # What a turn has answered leaves the journal with it.
    answers = JournalEntry.objects.filter(run_id=run.id, path__contains="%answer")
    assert answers.count() == (0 if how == "in a turn" else 1)


def test_none_is_an_answer() -> None:
    @durable_workflow(name="events.none")
    def nothing(ctx: Context) -> None:
        for event in ctx.wait_for_events("all", events=["a", "b"], count=2):
            event.complete(None if event.name == "a" else event.payload)

    run = nothing.enqueue()
    b, a = run.send_event("b", "for b"), run.send_event("a", "for a")
    run_until_idle()
    assert (a.response(timeout=0), b.response(timeout=0)) == (None, "for b")


def test_a_second_answer_fails_the_run_and_the_first_stands() -> None:
    run, event = asked(False, "twice")
    run_until_idle()
    with pytest.raises(RunFailed, match="answered already"):
        run.result(timeout=0)
    assert event.response(timeout=0) == 1


@pytest.mark.parametrize(
    ("how", "sentence"),
    [("fail", "failed and has not answered 'question'"), ("no", "succeeded and has not answered 'question'")],
)
def test_a_run_that_ends_without_an_answer(how: str, sentence: str) -> None:
    run, event = asked(False, how)
    run_until_idle()
    for ask in (event.response, async_to_sync(event.aresponse)):
        with pytest.raises(EventUnanswered, match=rf"Run {run.id} {sentence}"):
            ask()


def test_a_run_that_is_cancelled() -> None:
    run, event = asked(False, "at once")
    run.cancel()
    with pytest.raises(EventUnanswered, match="was cancelled and has not answered 'question'"):
        event.response()


def test_a_run_that_is_gone() -> None:
    run, event = asked(False, "at once")
    Run.objects.filter(pk=run.id).delete()
    with pytest.raises(RunNotFound):
        event.response(timeout=0)


@pytest.mark.parametrize("timeout", [0, 0.02, -1])
def test_the_time_out_is_the_sender_s_only(timeout: float) -> None:
    run, event = asked(False, "at once")
    for ask in (event.response, async_to_sync(event.aresponse)):
        with pytest.raises(TimeoutError, match=f"is queued and has not answered 'question' after {timeout:g} s"):
            ask(timeout=timeout)
    run_until_idle()
    assert event.response(timeout=timeout)
    assert run.refresh().status == Status.SUCCEEDED


def test_it_is_refused_where_it_could_only_hang() -> None:
    run = answer.enqueue("at once")
    with transaction.atomic():
        event = run.send_event("question")
        with pytest.raises(ResultUnavailable, match=r"^response\(\) inside a transaction"):
            event.response()

    @durable_workflow(name="events.hanging", retry=ONCE, step_retry=ONCE)
    def hanging(ctx: Context) -> Any:
        return ctx.step("ask", event.response)

    other = answer.enqueue("at once")
    event = other.send_event("no question")
    asking = hanging.enqueue()
    run_until_idle()
    with pytest.raises(RunFailed, match=r"response\(\) in a workflow's body would hold its slot"):
        asking.result(timeout=0)


@both
def test_a_replay_that_only_looks_comes_by_an_answer_in_a_scope_that_is_open(is_async: bool) -> None:
    name = "never"

    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")

        def inside(ctx: Context) -> None:
            event.complete("yes")
            ctx.wait_for_event(name)

        ctx.try_block("block", inside)

    async def abody(ctx: AsyncContext) -> None:
        event = await ctx.wait_for_event("question")

        async def inside(ctx: AsyncContext) -> None:
            event.complete("yes")
            await ctx.wait_for_event(name)

        await ctx.try_block("block", inside)

    world = World()
    world.send("question")
    assert isinstance(world.attempt(body), Suspended)
    facts = {"root_id": RUN_ID, "created_at": NOON, "is_cancelling": False, "input": "{}", "error": None}
    recorded = Recorded(run_id=RUN_ID, workflow="w", phase="forward", attempt=1, entries=world.entries, **facts)
    workflow: Workflow[Any, Any] = Workflow(abody if is_async else body, WorkflowOptions(name="w"))
    assert replay(recorded, {"w": workflow}) is None
    # It comes as far as the wait in the block, and sees there that it has another name now.
    name = "renamed"
    found = replay(recorded, {"w": workflow})
    assert found is not None
    assert found.path == "block/renamed"


# --- what an atomic step commits along ---------------------------------------------------------


@durable_workflow(name="events.atomic_turns", retry=ONCE)
def atomic_turns(ctx: Context) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("count", note, n, atomic=True)
        if n == 8:
            ctx.wait_for_event("go")
        return Continue(n + 1)

    return ctx.loop("count", turn, 0, history=1)


def test_turns_that_are_over_leave_the_journal_with_an_atomic_step() -> None:
    run = atomic_turns.enqueue()
    run_until_idle()
    paths = JournalEntry.objects.filter(run_id=run.id, path__startswith="count[").values_list("path", flat=True)
    assert {path.partition("]")[0] for path in paths} == {"count[7", "count[8"}


# --- polls -----------------------------------------------------------------------------------


def look(polls: int) -> Any:
    calls.append(current_step().path)
    return PENDING if len(calls) < polls else {"polls": len(calls)}


@durable_workflow(name="events.poll", retry=ONCE, step_retry=ONCE)
def polling(ctx: Context, polls: int, timeout: float | None = None) -> Any:
    return ctx.poll("ready", lambda: look(polls), every=timedelta(minutes=1), timeout=timeout)


@durable_workflow(name="events.poll_async", retry=ONCE, step_retry=ONCE)
async def polling_async(ctx: AsyncContext, polls: int, timeout: float | None = None) -> Any:
    async def looking() -> Any:
        return look(polls)

    return await ctx.poll("ready", looking, every=60, timeout=timeout)


def polled(is_async: bool, *arguments: Any) -> Any:
    return (polling_async if is_async else polling).enqueue(*arguments)


@pytest.mark.behaviour("WAIT-03a", "WAIT-03b")
@both
def test_a_poll_sleeps_between_and_has_one_entry(is_async: bool) -> None:
    run = polled(is_async, 30)
    with travel() as clock:
        run_until_idle()
        row = run.refresh().run
        assert (row.status, row.waiting_on) == (Status.WAITING, "poll:ready")
        assert abs((row.wake_at - clock.now()).total_seconds() - 60) < 30
        why = run.why()
        assert why.reason == "waiting: poll"
        assert why.text.startswith("It asks again at 'ready', next at ")
        run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == {"polls": 30}
    assert calls == ["ready"] * 30
    assert list(JournalEntry.objects.filter(run_id=run.id).values_list("path", "kind")) == [("ready", "poll")]


@pytest.mark.behaviour("WAIT-03d")
@both
def test_a_poll_that_takes_too_long(is_async: bool) -> None:
    run = polled(is_async, 30, 150)
    run_until_idle(skip_waits=True)
    with pytest.raises(RunFailed, match="'ready' was still pending when its time was over; it was polled 4 times"):
        run.result(timeout=0)


@both
def test_a_crash_repeats_no_poll_that_was_journaled(is_async: bool) -> None:
    run = polled(is_async, 3)
    with force_replay():
        run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == {"polls": 3}


@both
def test_a_process_that_dies_after_the_last_poll(is_async: bool) -> None:
    run = polled(is_async, 2)
    with crash_after("ready"):
        run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == {"polls": 2}


# --- out of a branch ---------------------------------------------------------------------------


@durable_workflow(name="events.carried", retry=ONCE, step_retry=ONCE)
def carried(ctx: Context, how: str) -> Any:
    match how:
        case "race":
            _, event = ctx.race(
                "r", {"ok": lambda ctx: ctx.wait_for_event("ok"), "late": lambda ctx: ctx.sleep("t", 100)}
            )
        case "join":
            event = ctx.join("j", {"ok": lambda ctx: ctx.wait_for_event("ok")})["ok"]
        case "block":
            event = ctx.try_block("b", lambda ctx: ctx.wait_for_event("ok")).value
        case _:
            event = ctx.loop("l", lambda ctx, state: Break(ctx.wait_for_event("ok")))
    event.complete(how)
    outcomes = ctx.join("tried", {"a": lambda ctx: ctx.try_step("note", note, how)})
    return event, outcomes["a"]


@durable_workflow(name="events.carried_async", retry=ONCE, step_retry=ONCE)
async def carried_async(ctx: AsyncContext, how: str) -> Any:
    match how:
        case "race":
            _, event = await ctx.race(
                "r", {"ok": lambda ctx: ctx.wait_for_event("ok"), "late": lambda ctx: ctx.sleep("t", 100)}
            )
        case "join":
            event = (await ctx.join("j", {"ok": lambda ctx: ctx.wait_for_event("ok")}))["ok"]
        case "block":
            event = (await ctx.try_block("b", lambda ctx: ctx.wait_for_event("ok"))).value
        case _:

            async def turn(ctx: AsyncContext, state: None) -> Break:
                return Break(await ctx.wait_for_event("ok"))

            event = await ctx.loop("l", turn)
    event.complete(how)
    outcomes = await ctx.join("tried", {"a": lambda ctx: ctx.try_step("note", note, how)})
    return event, outcomes["a"]


@both
@pytest.mark.parametrize("how", ["race", "join", "block", "loop"])
def test_an_event_that_a_branch_returns_is_stored_and_answered_after_it(is_async: bool, how: str) -> None:
    run = (carried_async if is_async else carried).enqueue(how)
    sent = run.send_event("ok", {"by": "ada"})
    with force_replay():
        run_until_idle()
    event, outcome = run.result(timeout=0)
    assert (event.name, event.payload, sent.response(timeout=0)) == ("ok", {"by": "ada"}, how)
    assert outcome == Outcome(True, how)
    assert calls == [how]
    with pytest.raises(ContextMisuse, match="by the code of its run"):
        event.complete(how)


# --- misuse ----------------------------------------------------------------------------------


def test_an_answer_from_another_thread_is_refused() -> None:
    import threading

    errors: list[BaseException] = []

    def complete(event: Any) -> None:
        try:
            event.complete("from elsewhere")
        except ContextMisuse as error:
            errors.append(error)

    @durable_workflow(name="events.threads")
    def threads(ctx: Context) -> None:
        thread = threading.Thread(target=complete, args=[ctx.wait_for_event("question")])
        thread.start()
        thread.join()

    run = threads.enqueue()
    event = run.send_event("question")
    run_until_idle()
    assert len(errors) == 1
    with pytest.raises(EventUnanswered):
        event.response(timeout=0)
    assert run.refresh().status == Status.FAILED

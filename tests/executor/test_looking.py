"""Changed code, and what is to be undone behind what is new in it: each call of ``ctx``, in both forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.management import call_command

from django_durable import PENDING, AsyncContext, Break, Context, Continue, Pending, Retry, durable_workflow
from django_durable.core.journal.states import Phase, Status
from django_durable.models import JournalEntry
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

ONCE = Retry(max_attempts=1)
performed: list[str] = []
faults: list[Exception] = []
"""What the compensation raises, one after the other."""


def work(name: str) -> str:
    performed.append(name)
    return name


def undo(name: str) -> None:
    if faults:
        raise faults.pop()
    performed.append(f"-{name}")


@durable_workflow(name="looking.child", retry=ONCE)
def child(ctx: Context, n: int) -> int:
    return n


Call = Callable[[Any, Callable[..., Any], Any], Any]
"""Given ``ctx``, what makes the code of a scope that returns a value, and an event."""


def pending() -> Pending:
    return PENDING


PASSED: dict[str, Call] = {
    "annotate": lambda ctx, body, event: ctx.annotate(new=1),
    "complete": lambda ctx, body, event: event.complete(1),
    "idempotency_key": lambda ctx, body, event: ctx.idempotency_key("new"),
    "join": lambda ctx, body, event: ctx.join("new", {"a": body(1), "b": body(2)}),
    "log": lambda ctx, body, event: ctx.log.info("new"),
    "loop": lambda ctx, body, event: ctx.loop("new", body(Break(1))),
    "map": lambda ctx, body, event: ctx.map("new", work, []),
    "now": lambda ctx, body, event: ctx.now(),
    "progress": lambda ctx, body, event: ctx.progress(1),
    "race": lambda ctx, body, event: ctx.race("new", {"a": body(1)}),
    "raise_if_cancelled": lambda ctx, body, event: ctx.raise_if_cancelled(),
    "random": lambda ctx, body, event: ctx.random(),
    "removed": lambda ctx, body, event: ctx.removed("new"),
    "rollback_checkpoint": lambda ctx, body, event: ctx.rollback_checkpoint("new"),
    "sleep": lambda ctx, body, event: ctx.sleep("new", 5),
    "sleep_until": lambda ctx, body, event: ctx.sleep_until("new", datetime(2100, 1, 1, tzinfo=UTC)),
    "try_block": lambda ctx, body, event: ctx.try_block("new", body(1)),
    "uuid4": lambda ctx, body, event: ctx.uuid4(),
    "version": lambda ctx, body, event: ctx.version("new", 2) == 1 or ctx.step("other", work, "other"),
}
ENDED: dict[str, Call] = {
    "map": lambda ctx, body, event: ctx.map("new", work, ["new"]),
    "poll": lambda ctx, body, event: ctx.poll("new", lambda: work("new"), every=1),
    "run_workflow": lambda ctx, body, event: ctx.run_workflow("new", child, 1),
    "start_workflow": lambda ctx, body, event: ctx.start_workflow("new", child, 1),
    "step": lambda ctx, body, event: ctx.step("new", work, "new"),
    "try_step": lambda ctx, body, event: ctx.try_step("new", work, "new"),
    "wait_for_event": lambda ctx, body, event: ctx.wait_for_event("new"),
    "wait_for_events": lambda ctx, body, event: ctx.wait_for_events("new", events=["new"]),
}
"""Those whose value only the outside knows. Code that has one of them behind ``ctx.version()`` goes on."""

REFUSED: dict[str, Call] = {
    "a child's input": lambda ctx, body, event: ctx.run_workflow("new", child, "one"),
    "input of one that is started": lambda ctx, body, event: ctx.start_workflow("new", child, 1, 2),
    "item of a map": lambda ctx, body, event: ctx.map("new", child, ["one"]),
    "time-out of a wait": lambda ctx, body, event: ctx.wait_for_event("new", timeout="one"),
    "time-out of a wait for several": lambda ctx, body, event: ctx.wait_for_events("new", events=["a"], timeout="one"),
    "every of a poll": lambda ctx, body, event: ctx.poll("new", int, every="one"),
    "first every of a poll": lambda ctx, body, event: ctx.poll("new", pending, every=lambda polls: 1 / (polls - 1)),
    "later every of a poll": lambda ctx, body, event: ctx.poll("new", pending, every=lambda polls: 1 / (2 - polls)),
    "state of a loop": lambda ctx, body, event: ctx.loop("new", body(Break(1)), object()),
    "next state of a loop": lambda ctx, body, event: ctx.loop("new", body(Continue(object()))),
    "value of a loop": lambda ctx, body, event: ctx.loop("new", body(Break(object()))),
    "what a turn returns": lambda ctx, body, event: ctx.loop("new", body(object())),
    "end of a loop": lambda ctx, body, event: ctx.loop("new", body(None), max_iterations=3),
    "result of a branch": lambda ctx, body, event: ctx.join("new", {"a": body(object())}),
    "result of a winner": lambda ctx, body, event: ctx.race("new", {"a": body(object())}),
    "version": lambda ctx, body, event: ctx.version("new", "one"),
    "length of a sleep": lambda ctx, body, event: ctx.sleep("new", "one"),
    "step that is no function": lambda ctx, body, event: ctx.step("new", "one"),
}

new: list[Call] = []


def returning(value: Any) -> Callable[..., Any]:
    return lambda *given: value


def areturning(value: Any) -> Callable[..., Any]:
    async def body(*given: Any) -> Any:
        return value

    return body


@durable_workflow(name="looking.sync", retry=ONCE)
def order(ctx: Context, fails: bool, catches: bool = False) -> None:
    event = ctx.wait_for_event("go")
    for call in new:
        try:
            call(ctx, returning, event)
        except Exception:
            if not catches:
                raise
    ctx.step("b", work, "b", compensate=undo, retry=Retry(max_attempts=2, initial=60, jitter=0))
    if fails:
        raise ValueError
    ctx.wait_for_event("never")


@durable_workflow(name="looking.async", retry=ONCE)
async def aorder(ctx: AsyncContext, fails: bool, catches: bool = False) -> None:
    event = await ctx.wait_for_event("go")
    for call in new:
        try:
            if inspect.isawaitable(result := call(ctx, areturning, event)):
                await result
        except Exception:
            if not catches:
                raise
    await ctx.step("b", work, "b", compensate=undo, retry=Retry(max_attempts=2, initial=60, jitter=0))
    if fails:
        raise ValueError
    await ctx.wait_for_event("never")


forms = pytest.mark.parametrize("workflow", [order, aorder], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    performed.clear()
    faults.clear()
    new.clear()


def undone_by(workflow: Any, how: str, call: Call) -> Any:
    """A run that has done ``b``, and whose code comes to ``call`` before that when it is to be undone."""
    if how == "fail":
        faults.append(OSError("later"))
    with travel():
        run = workflow.enqueue(fails=how == "fail")
        run.send_event("go")
        run_until_idle()
        assert run.refresh().status == Status.WAITING and performed == ["b"]
        new.append(call)
        if how == "cancel":
            run.cancel()
        else:
            assert run.run.phase == Phase.COMPENSATING
        run_until_idle(skip_waits=True)
    return run.refresh()


@forms
@pytest.mark.parametrize("how", ["cancel", "fail"])
@pytest.mark.parametrize("call", PASSED)
def test_what_takes_nothing_to_be_done_keeps_nobody_from_what_is_to_be_undone(
    workflow: Any, how: str, call: str
) -> None:
    run = undone_by(workflow, how, PASSED[call])
    assert (run.status, performed) == ("cancelled" if how == "cancel" else "failed", ["b", "-b"]), run.why()
    left = JournalEntry.objects.filter(run_id=run.id).values_list("path", flat=True)
    assert {path for path in left if "%" not in path} <= {"go", "b", "never"}
    assert run.progress is None and not run.annotations


@forms
@pytest.mark.parametrize("call", ENDED)
def test_what_only_the_outside_can_tell_ends_the_look(workflow: Any, call: str) -> None:
    run = undone_by(workflow, "cancel", ENDED[call])
    assert (run.status, performed) == (Status.BLOCKED, ["b"])
    call_, new[:] = new[0], []
    new.append(lambda ctx, body, event: ctx.version("since", 2) == 1 or call_(ctx, body, event))
    run.resume()
    run.cancel()
    run_until_idle()
    assert (run.refresh().status, performed) == (Status.CANCELLED, ["b", "-b"])


def test_each_call_is_one_of_these() -> None:
    facts = {"attempt", "cancelled", "is_replaying", "run_id"}
    assert {name for name in dir(Context) if name[0] != "_"} - facts == (PASSED.keys() | ENDED.keys()) - {"complete"}


@forms
@pytest.mark.parametrize("call", REFUSED)
def test_what_comes_after_a_call_that_was_refused_is_undone(workflow: Any, call: str) -> None:
    new.append(REFUSED[call])
    with travel():
        run = workflow.enqueue(fails=True, catches=True)
        run.send_event("go")
        run_until_idle(skip_waits=True)
    assert (run.refresh().status, performed) == (Status.FAILED, ["b", "-b"]), run.why()


# --- resumed -----------------------------------------------------------------------------------

TWICE = Retry(max_attempts=2, initial=600.0, maximum=600.0, jitter=0)


def pay(ctx: Context) -> Any:
    return ctx.try_step("pay", attempted, retry=TWICE)


def attempted() -> None:
    raise OSError("away")


@durable_workflow(name="looking.payment", retry=ONCE)
def payment(ctx: Context) -> None:
    ctx.step("pay", attempted, retry=TWICE)


TRIED: dict[str, Callable[[Context], Any]] = {
    "line": pay,
    "join": lambda ctx: ctx.join("at", {"a": pay})["a"],
    "race": lambda ctx: ctx.race("at", {"a": pay})[1],
    "block": lambda ctx: ctx.try_block("at", pay).value,
    "failed block": lambda ctx: ctx.try_block("at", lambda ctx: ctx.step("pay", attempted, retry=TWICE)),
    "loop": lambda ctx: ctx.loop("at", lambda ctx, state: Break(pay(ctx))),
    "child": lambda ctx: ctx.try_block("at", lambda ctx: ctx.run_workflow("pay", payment)),
}


@durable_workflow(name="looking.paid", retry=ONCE, step_retry=ONCE)
def paid(ctx: Context, how: str, races: bool) -> None:
    outcome = TRIED[how](ctx)
    if races:

        def loser(ctx: Context) -> None:
            ctx.step("b", work, "b", compensate=undo)
            ctx.sleep("long", 3600)

        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.sleep("nap", 1)})
    else:
        ctx.step("b", work, "b", compensate=undo)
    raise outcome.failure


def resumed(how: str, *, races: bool) -> Any:
    """A run that failed with what was not undone, and was resumed: it waits for the second attempt to pay."""
    faults.append(OSError("away"))
    run = paid.enqueue(how, races)
    run_until_idle(skip_waits=True)
    assert (run.refresh().status, performed) == (Status.FAILED, ["b"])
    assert run.error is not None and "not_undone" in run.error
    run.resume()
    run_until_idle()
    return run.refresh()


@pytest.mark.parametrize("how", TRIED)
def test_a_resumed_run_that_waits_is_not_blocked_for_what_losers_did_behind_that(how: str) -> None:
    with travel():
        run = resumed(how, races=True)
        assert run.status == Status.WAITING, run.why()
        run_until_idle(skip_waits=True)
        assert (run.refresh().status, performed) == (Status.FAILED, ["b", "-b"])


@pytest.mark.parametrize("how", [how for how in TRIED if how != "child"])
def test_a_resumed_run_that_is_cancelled_is_undone_behind_what_it_was_to_try_again(how: str) -> None:
    with travel():
        run = resumed(how, races=False)
        assert run.status == Status.WAITING, run.why()
        run.cancel()
        run_until_idle(skip_waits=True)
        assert (run.refresh().status, performed) == (Status.CANCELLED, ["b", "-b"]), run.why()


DECIDED: dict[str, Callable[[Context], Any]] = {
    "child": lambda ctx: ctx.run_workflow("at", payment),
    "event": lambda ctx: ctx.wait_for_event("at", timeout=10),
    "loop": lambda ctx: ctx.loop("at", nap, max_iterations=2),
    "map of children": lambda ctx: ctx.map("at", counted_payment, [1, 2]),
    "map of steps": lambda ctx: ctx.map("at", lambda n: attempted(), [1, 2]),
    "poll": lambda ctx: ctx.poll("at", pending, every=5, timeout=10),
    "poll that raises": lambda ctx: ctx.poll("at", attempted, every=5, retry=TWICE),
    "step": lambda ctx: ctx.step("at", attempted, retry=TWICE),
}
"""What fails, with the outside's word; once it is resumed it waits for that again."""


def nap(ctx: Context, state: Any) -> Continue:
    ctx.step("lie down", len, "nap")
    ctx.sleep("nap", 5)
    return Continue()


@durable_workflow(name="looking.counted_payment", retry=ONCE)
def counted_payment(ctx: Context, n: int) -> None:
    ctx.step("pay", attempted, retry=TWICE)


@durable_workflow(name="looking.decided", retry=ONCE, step_retry=TWICE)
def decided(ctx: Context, how: str) -> None:
    try:
        DECIDED[how](ctx)
    except Exception as error:
        ctx.step("b", work, "b", compensate=undo, retry=ONCE)
        raise ValueError from error


@pytest.mark.parametrize("when", ["at once", "while it waits"])
@pytest.mark.parametrize("how", DECIDED)
def test_behind_what_is_to_be_decided_again_everything_is_undone(how: str, when: str) -> None:
    faults.append(OSError("away"))
    with travel():
        run = decided.enqueue(how)
        run_until_idle(skip_waits=True)
        assert run.refresh().error is not None and "not_undone" in run.error and performed == ["b"]
        run.resume()
        if when == "while it waits":
            run_until_idle()
            assert run.refresh().status == Status.WAITING, run.why()
        run.cancel()
        run_until_idle(skip_waits=True)
        assert (run.refresh().status, performed) == (Status.CANCELLED, ["b", "-b"]), run.why()


@pytest.mark.parametrize("how", DECIDED)
def test_what_is_decided_again_forgets_what_it_had_come_to(how: str) -> None:
    with travel():
        run = decided.enqueue(how)
        run_until_idle(skip_waits=True)
        error = run.refresh().error
        run.resume()
        run_until_idle(skip_waits=True)
        assert (run.refresh().status, performed) == (Status.FAILED, ["b", "-b", "b", "-b"])
        assert run.error is not None and error is not None and run.error["culprits"] == error["culprits"]


@pytest.mark.parametrize("how", DECIDED)
def test_the_code_of_a_resumed_run_fits_what_lies_behind_what_is_to_be_decided_again(how: str) -> None:
    with travel():
        run = decided.enqueue(how)
        run_until_idle(skip_waits=True)
        run.resume()
        call_command("durable_replay", str(run.id))
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        call_command("durable_replay", str(run.id))

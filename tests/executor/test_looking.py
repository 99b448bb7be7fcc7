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
from django_durable.exceptions import ChildFailed, EventTimeout, JoinError, LoopLimit, PollTimeout, StepFailed
from django_durable.models import JournalEntry
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

ONCE = Retry(max_attempts=1)
performed: list[str] = []
faults: list[Exception] = []
"""What the compensation of ``b`` raises, one after the other."""


def work(name: str) -> str:
    performed.append(name)
    return name


def undo(name: str) -> None:
    if faults and name == "b":
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


DECIDED: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "child": (ChildFailed, lambda ctx: ctx.run_workflow("at", payment)),
    "event": (EventTimeout, lambda ctx: ctx.wait_for_event("at", timeout=10)),
    "loop": (LoopLimit, lambda ctx: ctx.loop("at", nap, max_iterations=2)),
    "map of children": (JoinError, lambda ctx: ctx.map("at", counted_payment, [1, 2])),
    "map of steps": (JoinError, lambda ctx: ctx.map("at", lambda n: attempted(), [1, 2])),
    "poll": (PollTimeout, lambda ctx: ctx.poll("at", pending, every=5, timeout=10)),
    "poll that raises": (StepFailed, lambda ctx: ctx.poll("at", attempted, every=5, retry=TWICE)),
    "step": (StepFailed, lambda ctx: ctx.step("at", attempted, retry=TWICE)),
}
"""What fails, with the outside's word, and how; once it is resumed it waits for that again."""
ADECIDED = {**DECIDED, "loop": (LoopLimit, lambda ctx: ctx.loop("at", anap, max_iterations=2))}


def nap(ctx: Context, state: Any) -> Continue:
    ctx.step("lie down", work, "nap", compensate=undo)
    ctx.sleep("nap", 5)
    return Continue()


async def anap(ctx: AsyncContext, state: Any) -> Continue:
    await ctx.step("lie down", work, "nap", compensate=undo)
    await ctx.sleep("nap", 5)
    return Continue()


@durable_workflow(name="looking.counted_payment", retry=ONCE)
def counted_payment(ctx: Context, n: int) -> None:
    ctx.step("pay", attempted, retry=TWICE)


@durable_workflow(name="looking.decided", retry=ONCE, step_retry=TWICE)
def decided(ctx: Context, how: str) -> None:
    error_type, call = DECIDED[how]
    try:
        call(ctx)
    except error_type as error:
        ctx.step("b", work, "b", compensate=undo, retry=ONCE)
        raise ValueError from error


@durable_workflow(name="looking.adecided", retry=ONCE, step_retry=TWICE)
async def adecided(ctx: AsyncContext, how: str) -> None:
    error_type, call = ADECIDED[how]
    try:
        await call(ctx)
    except error_type as error:
        await ctx.step("b", work, "b", compensate=undo, retry=ONCE)
        raise ValueError from error


both_forms = pytest.mark.parametrize("workflow", [decided, adecided], ids=["sync", "async"])


def resumed_behind(workflow: Any, how: str) -> Any:
    """A run that failed with ``b`` not undone, and was resumed."""
    faults.append(OSError("away"))
    run = workflow.enqueue(how)
    run_until_idle(skip_waits=True)
    assert run.refresh().error is not None and "not_undone" in run.error, run.why()
    performed.clear()
    run.resume()
    return run


def cancelled(run: Any) -> Any:
    run.cancel()
    run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.CANCELLED, run.why()
    return run


@both_forms
@pytest.mark.parametrize("when", ["at once", "while it waits", "when it has waited for a while"])
@pytest.mark.parametrize("how", DECIDED)
def test_behind_what_is_to_be_decided_again_everything_is_undone(workflow: Any, how: str, when: str) -> None:
    with travel() as clock:
        run = resumed_behind(workflow, how)
        for _ in range(["at once", "while it waits", "when it has waited for a while"].index(when)):
            run_until_idle()
            assert run.refresh().status == Status.WAITING, run.why()
            clock.advance(6)
        cancelled(run)
        assert run.error is None and performed.count("-b") == 1
        assert performed.count("nap") == performed.count("-nap")


@both_forms
@pytest.mark.parametrize("how", DECIDED)
def test_that_is_so_however_often_the_run_is_resumed(workflow: Any, how: str) -> None:
    with travel():
        run = resumed_behind(workflow, how)
        run_until_idle()
        for _ in range(2):
            faults.append(OSError("away again"))
            assert "not_undone" in cancelled(run).error
            run.resume()
        assert cancelled(run).error is None and performed.count("-b") == 1


@both_forms
@pytest.mark.parametrize("how", DECIDED)
def test_what_is_decided_again_forgets_what_it_had_come_to(workflow: Any, how: str) -> None:
    with travel():
        run = workflow.enqueue(how)
        run_until_idle(skip_waits=True)
        error = run.refresh().error
        run.resume()
        run_until_idle(skip_waits=True)
        assert run.refresh().status == Status.FAILED
        assert (performed.count("b"), performed.count("-b")) == (2, 2)
        assert run.error is not None and error is not None and run.error["culprits"] == error["culprits"]


@both_forms
@pytest.mark.parametrize("how", DECIDED)
def test_the_code_of_a_resumed_run_fits_what_lies_behind_what_is_to_be_decided_again(workflow: Any, how: str) -> None:
    with travel():
        run = workflow.enqueue(how)
        run_until_idle(skip_waits=True)
        run.resume()
        call_command("durable_replay", str(run.id))
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        call_command("durable_replay", str(run.id))


# --- decided otherwise ---------------------------------------------------------------------------


@durable_workflow(name="looking.mended_child", retry=ONCE)
def mended_child(ctx: Context) -> int:
    if not mended:
        raise OSError("away")
    return 1


mended: list[bool] = []


def mended_poll() -> Any:
    return 1 if mended else PENDING


SUCCEEDS: dict[str, Callable[[Context], Any]] = {
    "child": lambda ctx: ctx.run_workflow("at", mended_child),
    "event": lambda ctx: ctx.wait_for_event("at", timeout=10),
    "poll": lambda ctx: ctx.poll("at", mended_poll, every=5, timeout=10),
    "several events": lambda ctx: (
        ctx.wait_for_events("at", events=["at"], timeout=10) if mended else ctx.wait_for_event("at", timeout=10)
    ),
}


@durable_workflow(name="looking.succeeds", retry=ONCE)
def succeeds(ctx: Context, how: str) -> None:
    SUCCEEDS[how](ctx)
    ctx.wait_for_event("never")


@pytest.mark.parametrize("how", SUCCEEDS)
def test_what_succeeds_the_second_time_has_no_error_any_more(how: str) -> None:
    mended.clear()
    with travel():
        run = succeeds.enqueue(how)
        run_until_idle(skip_waits=True)
        assert run.refresh().status == Status.FAILED
        mended.append(True)
        run.resume()
        run_until_idle()
        if "event" in how:
            run.send_event("at")
            run_until_idle()
    assert journaled(run) == [("at", "succeeded", None), ("never", "waiting", None)]


def journaled(run: Any) -> list[tuple[str, str, str | None]]:
    return list(JournalEntry.objects.filter(run_id=run.id).order_by("seq").values_list("path", "status", "error"))


@pytest.mark.parametrize("how", ["event", "poll"])
def test_what_is_out_of_time_once_more_has_failed_without_an_error_as_it_did_the_first_time(how: str) -> None:
    mended.clear()
    with travel():
        run = succeeds.enqueue(how)
        run_until_idle(skip_waits=True)
        run.resume()
        assert JournalEntry.objects.get(run_id=run.id).wake_at is None
        run_until_idle(skip_waits=True)
    assert journaled(run) == [("at", "failed", None)]


@durable_workflow(name="looking.redone", retry=ONCE, step_retry=ONCE)
def redone(ctx: Context, catches: bool) -> None:
    try:
        ctx.step("a", again, compensate=undo)
    except StepFailed:
        if not catches:
            raise
        ctx.step("instead", work, "instead", compensate=undo)
        ctx.wait_for_event("never")
    ctx.step("b", work, "b", compensate=undo)
    ctx.step("c", attempted)


def again() -> str:
    if mended:
        raise OSError("not a second time")
    return "a"


@pytest.mark.parametrize("stands", [True, False])
@pytest.mark.parametrize("catches", [True, False])
def test_behind_a_step_that_could_not_be_done_again_everything_is_undone(catches: bool, stands: bool) -> None:
    """On the way of before, or on that which the code has taken since."""
    mended.clear()
    with travel():
        if stands:
            faults.append(OSError("away"))
        run = redone.enqueue(catches)
        run_until_idle(skip_waits=True)
        assert performed == (["b", "-a"] if stands else ["b", "-b", "-a"])
        mended.append(True)
        performed.clear()
        run.resume()
        run_until_idle(skip_waits=not catches)
        if catches:
            assert run.refresh().status == Status.WAITING
            run.cancel()
            run_until_idle()
    if catches and stands:
        # Both, of which the code comes to one.
        assert (run.refresh().status, performed) == (Status.BLOCKED, ["instead"])
        return
    assert run.refresh().status == (Status.CANCELLED if catches else Status.FAILED), run.why()
    assert performed == (["instead", "-instead"] if catches else ["-b"] if stands else [])


# --- the way that was taken is gone --------------------------------------------------------------


GONE: dict[str, Callable[[Context], Any]] = {
    "the code went another way": lambda ctx: ctx.step("at", mended_step),
    "stopped in a scope that was opened": lambda ctx: raised(ctx.try_block("at", paid_in_block)),
    "another error": lambda ctx: ctx.poll("at", other_error, every=5, retry=TWICE),
}


def mended_step() -> None:
    if not mended:
        raise OSError("away")


def paid_in_block(ctx: Context) -> None:
    ctx.step("pay", mended_step)
    ctx.wait_for_event("paid")


def raised(outcome: Any) -> None:
    if outcome.failure is not None:
        raise outcome.failure


def other_error() -> Any:
    if mended:
        raise KeyError("other")
    raise OSError("away")


@durable_workflow(name="looking.gone", retry=ONCE, step_retry=ONCE)
def gone(ctx: Context, how: str) -> None:
    try:
        GONE[how](ctx)
    except Exception as error:
        if isinstance(error, StepFailed) and "KeyError" in error.error["type"]:
            raise
        ctx.step("b", work, "b", compensate=undo)
        raise ValueError from error
    ctx.wait_for_event("never")


@pytest.mark.parametrize("how", GONE)
def test_where_the_way_that_was_taken_is_gone_the_run_says_what_stands(how: str) -> None:
    """A limit, which docs/errors.md tells of."""
    mended.clear()
    faults.append(OSError("away"))
    with travel():
        run = gone.enqueue(how)
        run_until_idle(skip_waits=True)
        assert run.refresh().error is not None and "not_undone" in run.error
        mended.append(True)
        run.resume()
        run_until_idle()
        assert run.refresh().status == Status.WAITING
        run.cancel()
        run_until_idle(skip_waits=True)
        assert run.refresh().status == Status.BLOCKED
        assert "'b' has to be undone" in run.why().text
        run.cancel()
        run_until_idle()
    assert (run.refresh().status, performed) == (Status.CANCELLED, ["b"])
    assert run.error is not None and set(run.error["not_undone"]) == {"b"}

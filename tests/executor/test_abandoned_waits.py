"""Waits that a run does not come to any more: its code has changed, or its failure cut them short.

What they waited for must not send the run round and round, and code that comes back to one goes on from when it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from django_durable import AsyncContext, Context, Retry, durable_workflow, get_run
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.core.kinds.events import Event as SentEvent
from django_durable.models import Event, JournalEntry, Run
from django_durable.testing import run_until_idle, travel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

Code = Callable[[Context], Any]
code: list[Code] = []
"""The release that is out: what the workflow does now."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    code.clear()
    failures.clear()
    yield


@durable_workflow(name="abandoned.released", retry=Retry(max_attempts=1))
def released(ctx: Context) -> Any:
    return told(code[-1](ctx))


@durable_workflow(name="abandoned.released_async", retry=Retry(max_attempts=1))
async def released_async(ctx: AsyncContext) -> Any:
    return told(await code[-1](ctx))  # type: ignore[arg-type]


def told(value: Any) -> Any:
    return value.payload if isinstance(value, SentEvent) else value


BOTH = pytest.mark.parametrize("workflow", [released, released_async], ids=["sync", "async"])


@durable_workflow(name="abandoned.child")
def child(ctx: Context) -> str:
    ctx.wait_for_event("go")
    return "done"


def asking(ctx: Any) -> Any:
    return ctx.wait_for_event("packed", timeout=timedelta(hours=1), default="nobody")


def starting(ctx: Any) -> Any:
    return ctx.run_workflow("child", child)


def napping(ctx: Any) -> Any:
    return ctx.sleep("nap", timedelta(hours=1))


def dozing(ctx: Any) -> Any:
    return ctx.sleep("doze", timedelta(days=1))


def release(fn: Code, run: Any) -> None:
    """Another release is out, and something has woken the run, which now goes by it."""
    code.append(fn)
    Run.objects.filter(pk=run.id).update(wake_at=Run.objects.get(pk=run.id).queued_at)
    run_until_idle()


def state(run: Any) -> tuple[str, str, int]:
    row = run.refresh().run
    return row.status, row.waiting_on, row.claims


def status_at(run: Any, path: str) -> str:
    return JournalEntry.objects.get(run_id=run.id, path=path).status


def begin(workflow: Any, fn: Code) -> Any:
    code.append(fn)
    run = workflow.enqueue()
    run_until_idle()
    assert run.refresh().status == Status.WAITING
    return run


@BOTH
def test_an_event_that_nobody_waits_for_any_more_wakes_once_and_never_again(workflow: Any) -> None:
    run = begin(workflow, asking)
    code.append(dozing)
    run.send_event("packed")
    # Ends only because the run comes to a rest, although its event lies there.
    assert run_until_idle() == 1
    assert state(run) == (Status.WAITING, "sleep:doze", 2)
    assert status_at(run, "packed") == EntryStatus.ABANDONED
    run.send_event("packed")
    assert run_until_idle() == 0
    assert state(run) == (Status.WAITING, "sleep:doze", 2)
    assert Event.objects.filter(run_id=run.id, consumed_at=None).count() == 2


@BOTH
def test_the_end_of_a_child_that_nobody_waits_for_any_more_wakes_once_and_never_again(workflow: Any) -> None:
    run = begin(workflow, starting)
    code.append(dozing)
    get_run(Run.objects.get(parent_id=run.id).pk).send_event("go")
    # The child, and its parent once.
    assert run_until_idle() == 2
    assert state(run) == (Status.WAITING, "sleep:doze", 2)
    assert status_at(run, "child") == EntryStatus.ABANDONED
    release(starting, run)
    assert run.result(timeout=0) == "done"


@BOTH
@pytest.mark.parametrize(("waiting", "path", "value"), [(asking, "packed", "nobody"), (napping, "nap", None)])
def test_code_that_comes_back_to_a_wait_goes_on_from_its_first_deadline(
    workflow: Any, waiting: Code, path: str, value: Any
) -> None:
    with travel() as clock:
        run = begin(workflow, waiting)
        first = JournalEntry.objects.get(run_id=run.id).wake_at
        clock.advance(minutes=50)
        release(dozing, run)
        assert status_at(run, path) == EntryStatus.ABANDONED
        release(waiting, run)
        assert (status_at(run, path), status_at(run, "doze")) == (EntryStatus.WAITING, EntryStatus.ABANDONED)
        assert run.refresh().run.wake_at == first
        clock.advance(minutes=9)
        assert run_until_idle() == 0
        clock.advance(minutes=2)
        assert run_until_idle() == 1
        assert run.result(timeout=0) == value


@BOTH
def test_code_that_comes_back_to_a_wait_takes_the_event_that_came_meanwhile(workflow: Any) -> None:
    def answered(ctx: Any) -> Any:
        return ctx.wait_for_event("packed")

    run = begin(workflow, answered)
    release(dozing, run)
    run.send_event("packed", 7)
    run_until_idle()
    assert state(run)[:2] == (Status.WAITING, "sleep:doze")
    release(answered, run)
    assert run.result(timeout=0) == 7


def refuse() -> None:
    raise OSError("not now")


def trying(ctx: Any) -> Any:
    return ctx.step("call", refuse)


@pytest.mark.parametrize("waiting", [asking, starting, napping, trying])
@pytest.mark.parametrize("is_said", [False, True], ids=["passed by", "removed"])
def test_a_run_that_has_succeeded_waits_for_nothing(waiting: Code, is_said: bool) -> None:
    run = begin(released, waiting)
    (path,) = JournalEntry.objects.filter(run_id=run.id).values_list("path", flat=True)

    def passing(ctx: Any) -> str:
        if is_said:
            ctx.removed(path, JournalEntry.objects.get(run_id=run.id).kind)
        return "done"

    release(passing, run)
    assert run.result(timeout=0) == "done"
    assert status_at(run, path) == EntryStatus.ABANDONED


# --- what a failure cut short ----------------------------------------------------------------

failures: list[Exception] = []


def hook(failure: Any) -> None:
    if failures:
        raise failures.pop()


def undo(value: Any) -> None:
    hook(value)


LATER = Retry(max_attempts=3, initial=3600, maximum=3600, jitter=0)


@durable_workflow(name="abandoned.hooked", retry=Retry(max_attempts=1), step_retry=LATER, on_failure=hook)
def hooked(ctx: Context) -> None:
    ctx.wait_for_event("packed")


@durable_workflow(name="abandoned.compensated", retry=Retry(max_attempts=1), step_retry=LATER)
def compensated(ctx: Context) -> None:
    ctx.step("take", int, compensate=undo)
    ctx.wait_for_event("packed")


@pytest.mark.parametrize(
    ("workflow", "waits_at"), [(hooked, "retry:%on_failure"), (compensated, "retry:take%undo")], ids=["hook", "undo"]
)
def test_an_event_does_not_send_round_a_run_whose_deadline_cut_its_wait_short(workflow: Any, waits_at: str) -> None:
    failures[:] = [OSError("not now")]
    with travel() as clock:
        run = workflow.using(timeout=60).enqueue()
        run_until_idle()
        clock.advance(minutes=2)
        run_until_idle()
        assert state(run)[:2] == (Status.WAITING, waits_at)
        claims = run.run.claims
        run.send_event("packed")
        assert run_until_idle() == 0
        assert state(run) == (Status.WAITING, waits_at, claims)
        clock.advance(hours=2)
        run_until_idle()
        assert run.refresh().status == Status.FAILED

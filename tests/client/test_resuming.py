"""Resuming what ended in a scope: what failed there is tried again, what was undone is done again, and no more."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

import django_durable
from django_durable import PENDING, Break, Context, Continue, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import EntryStatus, PayloadKind, Status
from django_durable.models import JournalEntry, Payload, Run
from django_durable.store import anew
from django_durable.store.database import Database
from django_durable.testing import run_until_idle, travel
from django_durable.testing.attempting import next_turn
from django_durable.testing.attempting import work as attempt
from django_durable.workflows.registry import workflows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
OPTIONS: dict[str, Any] = {"retry": Retry(max_attempts=1), "step_retry": Retry(max_attempts=1)}
calls: list[Any] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()
    broken.clear()


def work(name: str) -> str:
    calls.append(name)
    if name in broken:
        raise ValueError(name)
    return name


def undo(name: str) -> None:
    calls.append(f"-{name}")


def failed(workflow: Any, *args: Any) -> RunHandle[Any]:
    run: RunHandle[Any] = workflow.enqueue(*args)
    run_until_idle(skip_waits=True)
    assert run.refresh().status == Status.FAILED, run.why()
    calls.clear()
    return run


def resumed(run: RunHandle[Any]) -> Any:
    broken.clear()
    run.resume()
    run_until_idle(skip_waits=True)
    return run.result(timeout=0)


# --- scopes ------------------------------------------------------------------------------------


@durable_workflow(name="resuming.join", **OPTIONS)
def join(ctx: Context) -> Any:
    def inner(ctx: Context) -> Any:
        return ctx.join("in", {n: lambda ctx, n=n: ctx.step("s", work, n) for n in ("x", "y")})

    return ctx.join("out", {"a": inner, "b": lambda ctx: ctx.step("s", work, "b")})


def test_a_join_within_a_join_repeats_only_what_failed() -> None:
    broken.add("y")
    run = failed(join)
    assert set(run.error["culprits"]) == {"out/a/in/y/s", "out/a/in", "out"}  # type: ignore[index]
    assert resumed(run) == {"a": {"x": "x", "y": "y"}, "b": "b"}
    assert calls == ["y"]


def test_a_resumed_join_that_fails_again_can_be_resumed_again() -> None:
    broken.add("y")
    run = failed(join)
    run.resume()
    run_until_idle()
    assert (run.refresh().status, calls) == (Status.FAILED, ["y"])
    assert resumed(run)["a"] == {"x": "x", "y": "y"}


@durable_workflow(name="resuming.race", **OPTIONS)
def race(ctx: Context) -> Any:
    return ctx.race("any", {n: lambda ctx, n=n: ctx.step("s", work, n) for n in ("x", "y")})


def test_a_race_that_all_have_lost_is_run_again() -> None:
    broken.update("xy")
    run = failed(race)
    assert set(run.error["culprits"]) == {"any/x/s", "any/y/s", "any"}  # type: ignore[index]
    assert resumed(run)[1] in "xy"


@durable_workflow(name="resuming.map", **OPTIONS)
def mapped(ctx: Context) -> Any:
    return ctx.map("rows", work, ["p", "q", "r"])


def test_items_of_a_map_that_failed_are_tried_again_alone() -> None:
    broken.update("pr")
    assert resumed(failed(mapped)) == ["p", "q", "r"]
    assert calls == ["p", "r"]


@durable_workflow(name="resuming.child", **OPTIONS)
def child(ctx: Context, name: str) -> str:
    return ctx.step("s", work, name)


@durable_workflow(name="resuming.children", **OPTIONS)
def children(ctx: Context, most: int | None = None) -> Any:
    return ctx.map("all", child, list("pqrst"), max_parallel=most)


@pytest.mark.parametrize("most", [None, 1, 2])
def test_children_of_a_map_that_failed_are_started_anew(most: int | None) -> None:
    broken.update("qs")
    run = failed(children, most)
    assert resumed(run) == list("pqrst")
    assert calls == ["q", "s"]
    ends = Counter(Run.objects.filter(parent_id=run.id).values_list("parent_path", "status"))
    assert ends == {("", Status.FAILED): 2, **{(f"all[{n}]", Status.SUCCEEDED): 1 for n in range(5)}}


def test_a_map_starts_no_more_children_anew_than_may_run_side_by_side() -> None:
    broken.update("pqrst")
    run = failed(children, 2)
    run.resume()
    assert run_until_idle(max_claims=1_000) > 0
    broken.clear()
    run.resume()
    turn = next_turn(Database(), tuple(workflows()))
    assert turn is not None and turn.claim.run_id == run.id
    attempt(Database(), turn)
    assert Run.objects.live().filter(parent_id=run.id).count() == 2
    run_until_idle()
    assert run.result(timeout=0) == list("pqrst")


@durable_workflow(name="resuming.slow_child", **OPTIONS)
def slow_child(ctx: Context, name: str) -> str:
    ctx.wait_for_event(name)
    return ctx.step("s", work, name)


@durable_workflow(name="resuming.slow_children", **OPTIONS)
def slow_children(ctx: Context) -> Any:
    return ctx.map("all", slow_child, ["p", "q"])


def test_children_that_were_cancelled_with_their_parent_are_started_anew() -> None:
    run = slow_children.enqueue()
    run_until_idle()
    first = Run.objects.get(parent_id=run.id, parent_path="all[0]")
    django_durable.get_run(first.pk).send_event("p")
    run_until_idle()
    run.cancel()
    run_until_idle()
    assert run.refresh().status == Status.CANCELLED
    run.resume()
    run_until_idle()
    [again] = Run.objects.live().filter(parent_id=run.id)
    assert again.parent_path == "all[1]"
    django_durable.get_run(again.pk).send_event("q")
    run_until_idle()
    assert (run.result(timeout=0), calls) == (["p", "q"], ["p", "q"])


@durable_workflow(name="resuming.limited", **OPTIONS)
def limited(ctx: Context) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        return Break(n) if ctx.step("s", work, n) == 5 else Continue(n + 1)

    return ctx.loop("rows", turn, 0, max_iterations=4)


def test_a_loop_at_its_limit_goes_on_from_there_with_as_many_turns_again() -> None:
    run = failed(limited)
    assert run.error["culprits"] == ["rows"]  # type: ignore[index]
    assert resumed(run) == 5
    assert calls == [4, 5]


@durable_workflow(name="resuming.loop", **OPTIONS)
def loop(ctx: Context) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        done = ctx.join("both", {name: lambda ctx, name=name: ctx.step("s", work, f"{name}{n}") for name in "xy"})
        return Break(done) if n == 2 else Continue(n + 1)

    return ctx.loop("rows", turn, 0)


def test_a_join_in_a_turn_of_a_loop_is_gone_into_again() -> None:
    broken.add("y1")
    assert resumed(failed(loop)) == {"x": "x2", "y": "y2"}
    assert calls[0] == "y1" and sorted(calls) == ["x2", "y1", "y2"]


@durable_workflow(name="resuming.block", **OPTIONS)
def block(ctx: Context) -> Any:
    first = ctx.try_block("first", lambda ctx: ctx.step("s", work, "first"))
    return first.ok, ctx.try_block("second", lambda ctx: ctx.step("s", rollback, "second")).value


def rollback(name: str) -> str:
    calls.append(name)
    if broken:
        raise django_durable.RollbackError(name)
    return name


def test_a_block_that_asked_for_a_rollback_is_gone_into_again_and_one_that_gave_its_error_back_is_not() -> None:
    broken.add("first")
    run = failed(block)
    assert resumed(run) == (False, "second")
    assert calls == ["second"]


def look() -> Any:
    calls.append("look")
    return PENDING if broken else "there"


@durable_workflow(name="resuming.poll", **OPTIONS)
def poll(ctx: Context) -> Any:
    return ctx.poll("look", look, every=60, timeout=100)


def test_a_poll_that_was_out_of_time_begins_anew() -> None:
    broken.add("look")
    run = failed(poll)
    with travel() as clock:
        clock.advance(hours=1)
        assert resumed(run) == "there"


@durable_workflow(name="resuming.event", **OPTIONS)
def event(ctx: Context) -> Any:
    return ctx.wait_for_event("word", timeout=60).payload


def test_a_wait_that_was_out_of_time_begins_anew() -> None:
    run = failed(event)
    run.resume()
    run.send_event("word", "late")
    run_until_idle()
    assert run.result(timeout=0) == "late"


CHANGED = {
    "poll": lambda ctx: ctx.poll("at", look, every=60, timeout=100),
    "event": lambda ctx: ctx.wait_for_event("at", timeout=60),
    "child": lambda ctx: ctx.run_workflow("at", child, "at"),
}
is_new: list[str] = []


@durable_workflow(name="resuming.changed", **OPTIONS)
def changed(ctx: Context, how: str) -> Any:
    if is_new == ["another kind"]:
        done = [ctx.step("at", work, "other")]
    elif is_new == ["a version"] and ctx.version("since", 2) == 2:
        done = [ctx.step("other", work, "other")]
    elif is_new == ["gone"]:
        done = ["other"]
    else:
        done = [CHANGED[how](ctx)]
    ctx.sleep("nap", 60)
    return [*done, ctx.step("last", work, "last")]


@pytest.mark.parametrize("new", ["another kind", "a version", "gone"])
@pytest.mark.parametrize("how", CHANGED)
def test_code_that_was_changed_need_not_come_to_what_would_begin_anew(how: str, new: str) -> None:
    broken.update({"look", "at"})
    is_new.clear()
    run = failed(changed, how)
    is_new.append(new)
    run.resume()
    call_command("durable_replay", str(run.id))
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) == ["other", "last"]
    assert not Payload.objects.filter(run_id=run.id, kind=PayloadKind.MISSED).exists()
    order = JournalEntry.objects.filter(run_id=run.id).exclude(status="abandoned").order_by("seq")
    assert list(order.values_list("kind", flat=True))[-3:] == (["step"] if new != "gone" else []) + ["sleep", "step"]


@durable_workflow(name="resuming.many", **OPTIONS)
def many(ctx: Context, how: str, count: int) -> Any:
    broken.add("all")
    if how == "map of children":
        return ctx.map("rows", child, ["all"] * count)
    if how == "join":
        return ctx.join("rows", {str(n): lambda ctx: ctx.step("s", work, "all") for n in range(count)})
    for n in range(count):
        ctx.step("s", work, "s", key=n, compensate=undo)
    return ctx.step("last", work, "all")


@pytest.mark.parametrize("how", ["map of children", "join", "undone"])
def test_a_thousand_are_opened_again_at_once(how: str) -> None:
    """More than SQLite takes one by one in a statement; PostgreSQL minds no number, and takes seconds for these."""
    count = 1001 if connection.vendor == "sqlite" else 61
    run = failed(many, how, count)
    with CaptureQueriesContext(connection) as statements:
        run.resume()
    assert run.refresh().status == Status.QUEUED
    assert len(statements) < 60
    journal = JournalEntry.objects.filter(run_id=run.id)
    assert not journal.filter(status=EntryStatus.FAILED).exists()
    if how == "map of children":
        assert [journal.count(), Run.objects.filter(parent_id=run.id).exclude(parent_path="").count()] == [1, 0]
    else:
        assert journal.filter(status=EntryStatus.RETRYING).count() == count + (how == "undone")


def test_they_are_opened_however_many_statements_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anew, "PLACES_MAX", 2)
    run = failed(many, "undone", 5)
    run.resume()
    assert JournalEntry.objects.filter(run_id=run.id, status=EntryStatus.RETRYING).count() == 6
    assert JournalEntry.objects.filter(run_id=run.id, status=EntryStatus.OPEN).count() == 5


def test_what_has_the_same_path_in_another_run_stays() -> None:
    broken.update({"p", "q", "x"})
    first, second = mapped.enqueue(), twice.enqueue()
    run_until_idle()
    assert django_durable.resume_runs([first, second]) == 2
    opened = JournalEntry.objects.filter(status=EntryStatus.RETRYING).values_list("run_id", "path")
    assert set(opened) == {(first.id, "rows[0]"), (first.id, "rows[1]"), (second.id, "s")}


@durable_workflow(name="resuming.twice", **OPTIONS)
def twice(ctx: Context) -> Any:
    with suppress(django_durable.exceptions.JoinError):
        ctx.map("rows", work, ["p", "q"])
    ctx.step("s", work, "x")


# --- what was undone -----------------------------------------------------------------------------


def take(ctx: Context, name: str) -> str:
    return ctx.step(name, work, name, compensate=undo)


@durable_workflow(name="resuming.saga", **OPTIONS)
def saga(ctx: Context) -> Any:
    """Undone steps in a line, in branches, in the winner of a race, in a block and in turns of a loop."""

    def turn(ctx: Context, n: int) -> Any:
        take(ctx, f"turn {n}")
        ctx.step("plain", work, f"plain {n}")
        return Break() if n == 2 else Continue(n + 1)

    take(ctx, "line")
    ctx.join("both", {name: lambda ctx, name=name: take(ctx, name) for name in "xy"})
    ctx.race(
        "any", {"lost": lambda ctx: [take(ctx, "lost"), ctx.step("no", fail)], "won": lambda ctx: take(ctx, "won")}
    )
    ctx.try_block("block", lambda ctx: take(ctx, "block"))
    ctx.loop("rows", turn, 0, history=0)
    return ctx.step("last", work, "last")


def fail() -> None:
    raise ValueError("lost")


UNDONE = ["line", "x", "y", "won", "block", "turn 0", "turn 1", "turn 2"]


def test_what_was_undone_is_done_again_wherever_it_lies() -> None:
    broken.add("last")
    run = saga.enqueue()
    run_until_idle()
    assert run.refresh().status == Status.FAILED
    undone = [name for name in calls if name[0] == "-"]
    done = [name for name in calls if name in [*UNDONE, "lost"]]
    assert undone == [f"-{name}" for name in reversed(done)]
    calls.clear()
    assert resumed(run) == "last"
    assert calls == [*UNDONE, "last"]
    # The winner stays the winner, and what the other branch had done stays undone.
    lost = {step.path: step.status for step in run.steps() if step.path.startswith("any/lost/lost")}
    assert lost == {"any/lost/lost": "succeeded", "any/lost/lost%undo": "succeeded"}


def test_it_is_undone_again_when_the_run_fails_again() -> None:
    broken.add("last")
    run = failed(saga)
    run.resume()
    run_until_idle()
    assert calls == [*UNDONE, "last", *(f"-{name}" for name in reversed(UNDONE))]
    calls.clear()
    assert resumed(run) == "last"
    assert calls == [*UNDONE, "last"]


def test_a_step_in_a_branch_that_cannot_be_done_again_fails_the_run() -> None:
    broken.add("last")
    run = failed(saga)
    broken.clear()
    broken.add("x")
    run.resume()
    run_until_idle()
    assert (run.refresh().status, run.error["culprits"]) == (Status.FAILED, ["both/x/x"])  # type: ignore[index]
    calls.clear()
    assert resumed(run) == "last"
    assert calls == [*UNDONE, "last"]


@durable_workflow(name="resuming.checkpoint", **OPTIONS)
def checkpoint(ctx: Context) -> Any:
    take(ctx, "before")
    ctx.rollback_checkpoint("no return")
    take(ctx, "after")
    return ctx.step("last", work, "last")


def test_what_lies_before_a_checkpoint_was_not_undone_and_is_not_done_again() -> None:
    broken.add("last")
    run = failed(checkpoint)
    assert resumed(run) == "last"
    assert calls == ["after", "last"]


def test_what_is_done_again_keeps_its_place() -> None:
    broken.add("last")
    run = failed(checkpoint)
    before = dict(JournalEntry.objects.filter(run_id=run.id).values_list("path", "seq"))
    resumed(run)
    after = dict(JournalEntry.objects.filter(run_id=run.id).values_list("path", "seq"))
    assert after["after"] == before["after"] < after["last"]


# --- races that were open ------------------------------------------------------------------------


@durable_workflow(name="resuming.open_race", **OPTIONS)
def open_race(ctx: Context) -> bool:
    def branch(name: str, event: str) -> Any:
        def body(ctx: Context) -> None:
            ctx.step("do", work, name, compensate=undo)
            ctx.wait_for_event(event)

        return body

    def inside(ctx: Context) -> None:
        ctx.race("any", {"a": branch("a", "go"), "b": branch("b", "never")})
        raise LookupError("as data")

    outcome = ctx.try_block("at", inside)
    ctx.sleep("nap", 60)
    return outcome.ok


def test_a_branch_that_loses_after_the_resume_has_nothing_to_do_again() -> None:
    """Both branches were undone. What the loser would do again is due no more: the block is over as it was."""
    run = open_race.enqueue()
    run_until_idle()
    run.cancel()
    run_until_idle()
    assert sorted(calls) == ["-a", "-b", "a", "b"]
    calls.clear()
    run.resume()
    run.send_event("go")
    run_until_idle(skip_waits=True)
    assert run.result(timeout=0) is False
    assert calls == ["a"]

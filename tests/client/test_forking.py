"""A fork is a new run with what was journaled before a step: in a line, a branch, a loop, a block, a map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from django_durable import (
    Break,
    Context,
    Continue,
    Retry,
    RetryLater,
    durable_type,
    durable_workflow,
    fork_runs,
    get_run,
    resume_runs,
)
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.exceptions import CannotFork, RunNotFound
from django_durable.models import Audit, Event, JournalEntry, Run
from django_durable.testing import run_until_idle, travel

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
    return f"{name} {len(calls)}"


def undo(value: str) -> None:
    calls.append(f"-{value.partition(' ')[0]}")


def forked(run: RunHandle[Any], step: str, reason: str = "") -> RunHandle[Any]:
    """The fork, worked on until it waits or is over; ``calls`` are then its own."""
    calls.clear()
    new = run.fork(step, reason)
    run_until_idle()
    return new


def statuses(run: RunHandle[Any]) -> dict[str, str]:
    return {step.path: step.status for step in run.steps()}


# --- a line ----------------------------------------------------------------------------------


@durable_workflow(name="forking.line", **OPTIONS)
def line(ctx: Context, last: str = "c") -> list[str]:
    return [ctx.step(name, work, name) for name in ("a", "b", last)]


@pytest.mark.behaviour("FLOW-09a")
def test_what_comes_before_is_taken_over_and_the_rest_is_done() -> None:
    run = line.using(queue="vip", priority=7, tags=["x"], timeout=3600).enqueue()
    run_until_idle()
    new = run.fork("b", "b was wrong", actor="ann")
    assert (new.status, new.run.forked_from, new.run.parent_id, new.run.claims) == (Status.QUEUED, run.id, None, 0)
    assert (new.run.queue, new.run.priority, new.run.timeout) == ("vip", 7, 3600)
    assert list(new.run.tags.values_list("name", flat=True)) == ["x"]
    assert statuses(new) == {"a": "succeeded"}
    run_until_idle()
    assert calls == ["a", "b", "c", "b", "c"]
    assert new.result(timeout=0) == ["a 1", "b 4", "c 5"]
    assert run.result(timeout=0) == ["a 1", "b 2", "c 3"]
    told = {audit.run_id: (audit.verb, audit.actor, audit.reason, audit.status_before) for audit in Audit.objects.all()}
    assert told == {
        run.id: ("fork", "ann", f"{new.id} from 'b': b was wrong", "succeeded"),
        new.id: ("fork", "ann", f"of {run.id} from 'b': b was wrong", ""),
    }


@pytest.mark.behaviour("FLOW-09e")
@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("chard", "cannot be forked from 'chard': it never came there. Did you mean 'card'"),
        ("nothing like it", "it never came there.$"),
        ("", "it never came there.$"),
        ("%on_failure", "it never came there.$"),
    ],
)
def test_a_step_that_it_never_came_to_is_refused(step: str, said: str) -> None:
    run = line.enqueue("card")
    run_until_idle()
    with pytest.raises(CannotFork, match=said):
        run.fork(step)
    assert (Run.objects.count(), Audit.objects.count()) == (1, 0)


@pytest.mark.behaviour("FLOW-09b")
def test_a_fork_at_the_first_step_begins_at_the_beginning() -> None:
    run = line.enqueue()
    run_until_idle()
    assert forked(run, "a").result(timeout=0) == ["a 1", "b 2", "c 3"]


def test_a_run_that_does_not_exist() -> None:
    with pytest.raises(RunNotFound):
        RunHandle[Any](uuid7()).fork("a")


def test_a_fork_of_a_fork_and_its_cancellation() -> None:
    run = line.enqueue()
    run_until_idle()
    again = run.fork("c").fork("b")
    assert statuses(again) == {"a": "succeeded"}
    again.cancel()
    assert again.status == Status.CANCELLED


@durable_workflow(name="forking.saga", **OPTIONS)
def saga(ctx: Context) -> list[str]:
    done = [ctx.step(name, work, name, compensate=undo) for name in ("a", "b")]
    return [*done, ctx.step("c", work, "c")]


def test_what_was_undone_is_done_again() -> None:
    broken.add("c")
    run = saga.enqueue()
    run_until_idle()
    assert calls == ["a", "b", "c", "-b", "-a"]
    new = forked(run, "c")
    # It fails as the first one did, and undoes what itself has done.
    assert (calls, new.status) == (["a", "b", "c", "-b", "-a"], Status.FAILED)
    broken.clear()
    assert forked(run, "c").result(timeout=0) == ["a 1", "b 2", "c 3"]


# --- branches ----------------------------------------------------------------------------------


@durable_workflow(name="forking.branches", **OPTIONS)
def branches(ctx: Context) -> Any:
    def branch(name: str) -> Callable[[Context], list[str]]:
        return lambda ctx: [ctx.step("one", work, f"{name}1"), ctx.step("two", work, f"{name}2")]

    return ctx.join("both", {"x": branch("x"), "y": branch("y")})


@pytest.mark.behaviour("FLOW-09a")
def test_a_branch_begins_at_the_step_and_keeps_what_the_others_had_done_before_it() -> None:
    run = branches.enqueue()
    run_until_idle()
    assert calls == ["x1", "x2", "y1", "y2"]
    new = forked(run, "both/y/two")
    assert calls == ["y2"]
    assert new.result(timeout=0) == {"x": ["x1 1", "x2 2"], "y": ["y1 3", "y2 1"]}
    forked(run, "both/x/two")
    assert calls == ["x2", "y1", "y2"]
    forked(run, "both/y")
    assert calls == ["y1", "y2"]
    forked(run, "both")
    assert calls == ["x1", "x2", "y1", "y2"]


@durable_workflow(name="forking.race", **OPTIONS)
def race(ctx: Context) -> Any:
    winner = ctx.race(
        "any",
        {
            "quick": lambda ctx: [ctx.step("one", work, "one"), ctx.step("two", work, "two")],
            "slow": lambda ctx: ctx.sleep("nap", timedelta(days=1)),
        },
    )
    return [winner, ctx.step("after", work, "after")]


def test_a_race_that_was_decided_before_stays_so_and_another_is_run_again() -> None:
    run = race.enqueue()
    run_until_idle()
    forked(run, "after")
    assert calls == ["after"]
    new = forked(run, "any/quick/two")
    assert calls == ["two", "after"]
    assert new.result(timeout=0)[0][0] == "quick"


def give_way() -> None:
    calls.append("lose")
    raise RetryLater(after=3600)


@durable_workflow(name="forking.lost", **OPTIONS)
def lost(ctx: Context) -> Any:
    losing = {"slow": lambda ctx: ctx.step("lose", give_way, retry=Retry(max_attempts=2))}
    return ctx.race("any", {**losing, "quick": lambda ctx: ctx.step("win", work, "win")}), ctx.step("after", work, "a")


def test_what_a_branch_that_lost_has_left_behind_is_not_done_again() -> None:
    run = lost.enqueue()
    run_until_idle()
    assert calls == ["lose", "win", "a"] and statuses(run)["any/slow/lose"] not in ("succeeded", "failed")
    new = forked(run, "after")
    assert calls == ["a"] and new.result(timeout=0) == (("quick", "win 2"), "a 1")
    forked(run, "any/quick/win")
    assert calls == ["lose", "win", "a"]


@durable_workflow(name="forking.lost_in_turns", **OPTIONS)
def lost_in_turns(ctx: Context) -> Any:
    def turn(ctx: Context, number: int) -> Any:
        losing = {"slow": lambda ctx: ctx.sleep("nap", timedelta(days=1))}
        ctx.race("any", {**losing, "quick": lambda ctx: ctx.step("win", work, f"win {number}")})
        return Continue(number + 1) if number < 2 else ctx.wait_for_event("go")

    return ctx.loop("turns", turn, 0)


def test_a_loop_goes_back_no_further_for_what_was_left_behind_in_its_turns() -> None:
    run = lost_in_turns.enqueue()
    run_until_idle()
    assert calls == ["win 0", "win 1", "win 2"]
    new = forked(run, "turns[2]/any/quick/win")
    assert calls == ["win 2"] and "turns[0]/any/slow/nap" not in statuses(new)


@durable_type("forking.money")
@dataclass
class Money:
    cents: int


@durable_workflow(name="forking.typed_race", compensate_on_cancel=False, **OPTIONS)
def typed_race(ctx: Context, fails: bool = False) -> None:
    ctx.race("any", {"a": lambda ctx: ctx.step("pay", Money, 1), "b": lambda ctx: ctx.wait_for_event("never")})
    if fails:
        raise ValueError("no")
    ctx.wait_for_event("go")


def of_another_release(run: RunHandle[Any]) -> None:
    """What the race was won with is of a class that no code here has."""
    for row in JournalEntry.objects.filter(run_id=run.id, value__contains="forking.money"):
        row.value = row.value.replace("forking.money", "forking.gone")  # type: ignore[union-attr]
        row.save()


def test_a_race_with_a_value_that_cannot_be_read_hinders_no_fork_no_cancellation_and_no_resume_of_others() -> None:
    run = typed_race.enqueue()
    run_until_idle()
    of_another_release(run)
    assert run.fork("go").refresh().status == Status.QUEUED
    run.cancel()
    run_until_idle()
    assert run.refresh().status == Status.CANCELLED

    bad, good = typed_race.enqueue(True), line.enqueue("broken")
    broken.add("broken")
    run_until_idle()
    of_another_release(bad)
    assert resume_runs([bad, good]) == 2
    broken.clear()
    run_until_idle()
    assert (bad.refresh().status, good.refresh().status) == (Status.BLOCKED, Status.SUCCEEDED)


@durable_workflow(name="forking.block", **OPTIONS)
def block(ctx: Context) -> Any:
    inside = ctx.try_block("block", lambda ctx: [ctx.step("one", work, "one"), ctx.step("two", work, "two")])
    return inside.ok, ctx.step("after", work, "after")


def test_a_block_is_entered_again() -> None:
    broken.add("two")
    run = block.enqueue()
    run_until_idle()
    assert run.result(timeout=0)[0] is False
    broken.clear()
    assert forked(run, "block/two").result(timeout=0)[0] is True
    assert calls == ["two", "after"]
    assert forked(run, "after").result(timeout=0)[0] is False
    assert calls == ["after"]


# --- loops -------------------------------------------------------------------------------------


@durable_workflow(name="forking.loop", **OPTIONS)
def loop(ctx: Context, last: int, history: int = 3) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("load", work, f"load {n}")
        ctx.sleep("rest", 60)
        ctx.step("save", work, f"save {n}")
        return Break(n) if n == last else Continue(n + 1)

    return ctx.loop("rows", turn, 0, history=history)


def after_turns(count: int, **options: Any) -> RunHandle[Any]:
    """A loop that sleeps in turn ``count``."""
    run = loop.enqueue(8, **options)
    with travel() as clock:
        for _ in range(count):
            run_until_idle()
            clock.advance(seconds=61)
        run_until_idle()
    assert run.refresh().run.waiting_on == f"sleep:rows[{count}]/rest"
    return run


@pytest.mark.behaviour("FLOW-09c", "FLOW-09d")
@pytest.mark.parametrize(
    ("step", "first"),
    [("rows[5]/rest", []), ("rows[5]/load", ["load 5"]), ("rows[4]/save", ["save 4", "load 5"]), ("rows[3]", None)],
)
def test_a_sleeping_loop_goes_back_to_the_turn_and_on_from_there(step: str, first: list[str] | None) -> None:
    run = after_turns(5)
    calls.clear()
    new = run.fork(step)
    run_until_idle()
    assert calls == (first if first is not None else ["load 3"])
    run.cancel()
    run_until_idle(skip_waits=True)
    assert new.result(timeout=0) == 8
    assert calls[-1] == "save 8"
    assert len(calls) == len(set(calls))


@pytest.mark.behaviour("FLOW-09e")
def test_a_turn_that_has_left_the_journal_is_told() -> None:
    run = after_turns(5, history=1)
    with pytest.raises(CannotFork, match=r"turn 2 of loop 'rows' has left the journal"):
        run.fork("rows[2]/save")
    with pytest.raises(CannotFork, match="never came there"):
        run.fork("rows[7]/save")
    assert run.fork("rows[4]/save").run.forked_from == run.id


def test_a_loop_that_is_over_has_no_turns_to_go_back_to() -> None:
    run = loop.enqueue(2)
    run_until_idle(skip_waits=True)
    with pytest.raises(CannotFork, match=r"turn 1 of loop 'rows' has left the journal"):
        run.fork("rows[1]/save")
    assert statuses(run.fork("rows")) == {}


@durable_workflow(name="forking.beside", **OPTIONS)
def beside(ctx: Context) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("count", work, f"count {n}")
        ctx.sleep("rest", 60)
        return Break(n) if n == 6 else Continue(n + 1)

    def asking(ctx: Context) -> str:
        ctx.step("ask", work, "ask")
        ctx.wait_for_event("answer")
        return ctx.step("told", work, "told")

    return ctx.join("both", {"loop": lambda ctx: ctx.loop("rows", turn, 0, history=2), "asking": asking})


def test_a_loop_in_another_branch_goes_back_too_or_is_told_where_it_cannot() -> None:
    run = beside.enqueue()
    with travel() as clock:
        for _ in range(2):
            run_until_idle()
            clock.advance(seconds=61)
        run.send_event("answer")
        run_until_idle()
        clock.advance(seconds=61)
        run_until_idle()
        calls.clear()
        told = statuses(run.fork("both/asking/told"))
        assert "both/loop/rows[3]/count" not in told
        for _ in range(3):
            clock.advance(seconds=61)
            run_until_idle()
        with pytest.raises(CannotFork, match="what the state of turn"):
            run.fork("both/asking/told")


# --- maps, children, waits ---------------------------------------------------------------------


@durable_workflow(name="forking.map", **OPTIONS)
def mapped(ctx: Context) -> Any:
    return ctx.map("rows", work, ["p", "q", "r"])


def test_a_map_does_the_item_and_those_after_it() -> None:
    run = mapped.enqueue()
    run_until_idle()
    new = forked(run, "rows[1]")
    assert calls == ["q", "r"]
    assert new.result(timeout=0) == ["p 1", "q 1", "r 2"]


@durable_workflow(name="forking.child", **OPTIONS)
def child(ctx: Context, name: str) -> str:
    if name == "waits":
        ctx.wait_for_event("go")
    return ctx.step("work", work, name)


@durable_workflow(name="forking.children", **OPTIONS)
def children(ctx: Context, *names: str) -> Any:
    first = ctx.map("all", child, list(names), max_parallel=1)
    return [*first, ctx.run_workflow("one", child, "waits")]


def test_children_that_had_ended_are_kept_and_one_that_was_waited_for_is_another() -> None:
    run = children.enqueue("p", "q")
    run_until_idle()
    new = forked(run, "one")
    [old_child, new_child] = Run.objects.filter(parent_path="one").order_by("pk")
    assert (old_child.parent_id, new_child.parent_id) == (run.id, new.id)
    assert Run.objects.filter(parent_id=new.id).count() == 1
    get_run(new_child.pk).send_event("go")
    run_until_idle()
    assert new.result(timeout=0) == ["p 1", "q 2", "waits 1"]


def test_a_map_of_children_starts_the_item_and_those_after_it() -> None:
    run = children.enqueue("p", "q", "r")
    run_until_idle()
    new = forked(run, "all[1]")
    assert calls == ["q", "r"]
    paths = Run.objects.filter(parent_id=new.id).order_by("pk").values_list("parent_path", flat=True)
    assert list(paths) == ["all[1]", "all[2]", "one"]


@durable_workflow(name="forking.map_beside", **OPTIONS)
def map_beside(ctx: Context, most: int | None) -> Any:
    def near(ctx: Context) -> Any:
        return ctx.map("m", child, ["p", "waits"], max_parallel=most)

    def far(ctx: Context) -> Any:
        ctx.sleep("nap", 1)
        return ctx.step("x", work, "x")

    return ctx.join("both", {"near": near, "far": far})


@pytest.mark.parametrize("status", [EntryStatus.WAITING, EntryStatus.OPEN, EntryStatus.ABANDONED])
@pytest.mark.parametrize("most", [None, 1])
def test_a_map_whose_children_were_under_way_starts_others_for_them(most: int | None, status: str) -> None:
    """Nothing of it came later: the old run's own children are its own."""
    with travel() as clock:
        run = map_beside.enqueue(most)
        run_until_idle()
        clock.advance(seconds=2)
        run_until_idle()
        assert "both/far/x" in statuses(run)
        JournalEntry.objects.filter(run_id=run.id, path="both/near/m").update(status=status)
        new = forked(run, "both/far/x")
        assert (calls[0], new.refresh().status) == ("x", Status.WAITING), new.why()
        [waits] = Run.objects.live().filter(parent_id=new.id)
        get_run(waits.pk).send_event("go")
        run_until_idle()
    assert new.result(timeout=0)["near"][1].startswith("waits")


@durable_workflow(name="forking.events", **OPTIONS)
def events(ctx: Context) -> Any:
    return [ctx.wait_for_event("a").payload, ctx.step("b", work, "b"), ctx.wait_for_event("c").payload]


def test_an_event_that_was_taken_is_kept_and_others_are_not() -> None:
    run = events.enqueue()
    run.send_event("a", 1)
    run.send_event("c", 2)
    run.send_event("c", 3)
    run_until_idle()
    new = forked(run, "b")
    assert new.refresh().run.waiting_on == "event:c"
    assert not Event.objects.filter(run_id=new.id).exists()
    new.send_event("c", 4)
    run_until_idle()
    assert new.result(timeout=0) == [1, "b 1", 4]


def test_a_wait_that_is_open_begins_anew() -> None:
    @durable_workflow(name="forking.wait", **OPTIONS)
    def waits(ctx: Context) -> Any:
        ctx.join(
            "both",
            {"sleeps": lambda ctx: ctx.sleep("nap", 3600), "works": lambda ctx: ctx.step("work", work, "work")},
        )

    run = waits.enqueue()
    run_until_idle()
    with travel() as clock:
        clock.advance(minutes=30)
        new = forked(run, "both/works/work")
        wakes = JournalEntry.objects.get(run_id=new.id, status=EntryStatus.WAITING).wake_at
        assert wakes is not None and wakes - clock.now() > timedelta(minutes=55)


@durable_workflow(name="forking.own_items", **OPTIONS)
def own_items(ctx: Context, of: str, with_children: bool) -> Any:
    items = {
        "events": lambda: ctx.wait_for_events("two", events=["a"], count=2),
        "ids": lambda: [f"{ctx.run_id}/{number}" for number in range(2)],
        "draws": lambda: [ctx.uuid4(), ctx.random()],
    }[of]()
    done = ctx.map("each", takes_any, items) if with_children else ctx.map("each", str, items)
    ctx.step("last", work, "last")
    return len(done)


@durable_workflow(name="forking.takes_any")
def takes_any(ctx: Context, item: Any) -> int:
    return 1


@pytest.mark.parametrize("of", ["events", "ids", "draws"])
@pytest.mark.parametrize(
    ("with_children", "step"), [(False, "last"), (True, "last"), (False, "each[1]"), (True, "each[1]")]
)
def test_items_that_hold_what_only_the_old_run_was_are_the_same_work(of: str, with_children: bool, step: str) -> None:
    run = own_items.enqueue(of, with_children)
    run.send_event("a", 1)
    run.send_event("a", 2)
    run_until_idle()
    new = forked(run, step)
    assert (new.status, new.result(timeout=0)) == ("succeeded", 2), new.why()
    again = forked(new, "last")
    assert again.result(timeout=0) == 2


# --- many ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", ["loop", "loop[0]%turn", "each"])
def test_of_many_one_whose_journal_is_damaged_is_passed_by(damaged: str) -> None:
    @durable_workflow(name="forking.damaged", **OPTIONS)
    def looping(ctx: Context) -> None:
        def turn(ctx: Context, number: int) -> Any:
            ctx.map("each", str, [number])
            ctx.step("x", work, "x")
            if number == 1:
                ctx.wait_for_event("go")
            return Continue(number + 1)

        ctx.map("each", str, [1])
        ctx.loop("loop", turn, 0)

    runs = [looping.enqueue() for _ in range(3)]
    run_until_idle()
    JournalEntry.objects.filter(run_id=runs[1].id, path=damaged).update(value="{damaged")
    made = fork_runs(Run.objects.order_by("pk"), "loop[1]/x")
    left_out = damaged != "loop[0]%turn"
    assert len(made) == (2 if left_out else 3)
    if left_out:
        with pytest.raises(CannotFork, match="its journal is damaged"):
            runs[1].fork("loop[1]/x")


def test_many_are_forked_by_a_queryset_and_those_that_cannot_be_are_passed_by() -> None:
    runs = [line.enqueue("c"), line.enqueue("x"), line.enqueue("c")]
    run_until_idle()
    new = fork_runs(Run.objects.for_workflow(line).order_by("created_at"), from_step="c", reason="wrong", actor="ada")
    assert [run.refresh().run.forked_from for run in new] == [runs[0].id, runs[2].id]
    told = Audit.objects.filter(verb="fork", reason__endswith="wrong", actor="ada")
    assert set(told.values_list("run_id", flat=True)) == {run.id for run in (*new, runs[0], runs[2])}
    calls.clear()
    run_until_idle()
    assert calls == ["c", "c"]

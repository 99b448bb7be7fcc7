"""Replays of journals against code that has changed since: what is told, and that nothing is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from django_durable import PENDING, AsyncContext, Break, Context, Continue
from django_durable.client.recorded import Recorded
from django_durable.core.journal.journal import TIMED_OUT, Entry
from django_durable.core.journal.outcomes import Completed, Failed, Outcome, Suspended
from django_durable.core.journal.states import EntryStatus, Kind, Phase
from django_durable.core.payloads.codec import encode
from django_durable.executor.replaying import Divergence, Reason, replay
from django_durable.workflows.definition import Workflow
from django_durable.workflows.options import WorkflowOptions
from tests.core.driving import AT_ONCE, NOON, RUN_ID, Crash, Pack, World, end

NAME = "shop.order"


def forbidden(*args: Any) -> Any:
    raise AssertionError("a step was run")


def recorded(world: World, **changed: Any) -> Recorded:
    facts: dict[str, Any] = {
        "run_id": RUN_ID,
        "workflow": NAME,
        "phase": Phase.FORWARD,
        "attempt": 1,
        "root_id": RUN_ID,
        "created_at": NOON,
        "is_cancelling": False,
        "input": "{}",
        "error": None,
        "entries": deepcopy(world.entries),
    }
    return Recorded(**{**facts, **changed})


def replayed(world: World, code: Callable[..., Any], **changed: Any) -> Divergence | None:
    before = deepcopy(world.entries)
    found = replay(recorded(world, **changed), {NAME: Workflow(code, WorkflowOptions(name=NAME))})
    assert world.entries == before
    return found


def waiting(code: Callable[[Context], Any]) -> World:
    world = World(step_retry=AT_ONCE)
    assert isinstance(world.attempt(code), Suspended)
    return world


# --- code that fits --------------------------------------------------------------------------


def branch(name: str, waits: bool = False) -> Callable[[Context], Any]:
    def body(ctx: Context) -> str:
        ctx.step("first", lambda: name)
        if waits:
            ctx.wait_for_event(name)
        return ctx.step("second", lambda: name)

    return body


def turn(ctx: Context, state: int) -> Any:
    ctx.now()
    ctx.step("count", lambda: state)
    if state == 2:
        ctx.sleep("pause", 60)
    ctx.step("again", lambda: state)
    return Break(state) if state == 4 else Continue(state + 1)


def undoable(ctx: Context, state: int) -> Any:
    ctx.step("book", lambda: state, compensate=lambda value: None)
    return Break(state) if state == 2 else Continue(state + 1)


def refuse() -> None:
    raise ValueError("no")


def block(ctx: Context) -> None:
    ctx.step("in", lambda: 1)
    ctx.step("fails", refuse)


polls: list[int] = []


def polled() -> Any:
    polls.append(len(polls))
    return PENDING if len(polls) < 4 else "there"


def everything(ctx: Context) -> Any:
    ctx.now()
    ctx.step("plain", lambda: 1, compensate=lambda value: None)
    ctx.try_step("exhausted", refuse)
    ctx.version("gate", 2)
    ctx.rollback_checkpoint("mark")
    ctx.try_block("block", block)
    ctx.loop("turns", turn, 0, history=2)
    ctx.loop("undoable", undoable, 0, history=0)
    ctx.join("join", {"left": branch("l", waits=True), "right": branch("r"), "far": branch("f", waits=True)})
    ctx.race("race", {"slow": branch("s", waits=True), "fast": branch("q")})
    ctx.map("map", lambda item: item, range(40))
    ctx.map("steps", lambda item: item, range(3), max_parallel=1)
    ctx.start_workflow("left alone", Pack())
    ctx.wait_for_event("asked", timeout=timedelta(days=1), default=None)
    ctx.poll("poll", polled, every=60)
    ctx.sleep("rest", timedelta(hours=1))
    ctx.run_workflow("child", Pack())
    return ctx.step("last", lambda: "done")


# The same, awaited: the journal of the one form is that of the other.


async def abranch(ctx: AsyncContext, name: str, waits: bool = False) -> str:
    await ctx.step("first", forbidden)
    if waits:
        await ctx.wait_for_event(name)
    return await ctx.step("second", forbidden)  # type: ignore[no-any-return]


async def aturn(ctx: AsyncContext, state: int) -> Any:
    ctx.now()
    await ctx.step("count", forbidden)
    if state == 2:
        await ctx.sleep("pause", 60)
    await ctx.step("again", forbidden)
    return Break(state) if state == 4 else Continue(state + 1)


async def aundoable(ctx: AsyncContext, state: int) -> Any:
    await ctx.step("book", forbidden, compensate=forbidden)
    return Break(state) if state == 2 else Continue(state + 1)


async def ablock(ctx: AsyncContext) -> None:
    await ctx.step("in", forbidden)
    await ctx.step("fails", forbidden)


async def aeverything(ctx: AsyncContext) -> Any:
    ctx.now()
    await ctx.step("plain", forbidden, compensate=forbidden)
    await ctx.try_step("exhausted", forbidden)
    ctx.version("gate", 2)
    await ctx.rollback_checkpoint("mark")
    await ctx.try_block("block", ablock)
    await ctx.loop("turns", aturn, 0, history=2)
    await ctx.loop("undoable", aundoable, 0, history=0)
    await ctx.join(
        "join",
        {
            "left": lambda ctx: abranch(ctx, "l", waits=True),
            "right": lambda ctx: abranch(ctx, "r"),
            "far": lambda ctx: abranch(ctx, "f", waits=True),
        },
    )
    await ctx.race("race", {"slow": lambda ctx: abranch(ctx, "s", waits=True), "fast": lambda ctx: abranch(ctx, "q")})
    await ctx.map("map", forbidden, range(40))
    await ctx.map("steps", forbidden, range(3), max_parallel=1)
    await ctx.start_workflow("left alone", Pack())
    await ctx.wait_for_event("asked", timeout=timedelta(days=1), default=None)
    await ctx.poll("poll", forbidden, every=60)
    await ctx.sleep("rest", timedelta(hours=1))
    await ctx.run_workflow("child", Pack())
    return await ctx.step("last", forbidden)


def lived(world: World) -> Iterator[None]:
    """Let the world's run live up to its end, with a crash after every commit; yields after each."""
    outcome: Outcome | None = None
    while not isinstance(outcome, Completed):
        assert len(world.commits) < 400
        world.crash_after = {len(world.commits) + 1}
        try:
            outcome = world.attempt(everything)
        except Crash:
            outcome = world.commits[-1].outcome
        yield
        world.now += timedelta(days=2)
        if "join" in world.entries and not world.events:
            world.send("l")
            world.send("f")
        if "child" in world.children and world.children["child"].status == "queued":
            end(world, "child", "succeeded", 1)


@pytest.mark.parametrize("code", [everything, aeverything])
def test_code_that_has_not_changed_fits_whenever_the_run_is_looked_at(code: Any) -> None:
    polls.clear()
    world, looks = World(step_retry=AT_ONCE), 0
    for _ in lived(world):
        performed = len(world.performed)
        assert replayed(world, code) is None, list(world.entries)
        assert len(world.performed) == performed
        looks += 1
    assert looks > 60
    assert {"last", "race", "poll", "steps[2]", "undoable[1]%turn"} <= world.entries.keys()


def test_nothing_is_logged_and_no_code_sees_that_the_replay_has_an_end(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[bool] = []

    def code(ctx: Context) -> None:
        ctx.step("a", lambda: 1)
        ctx.log.warning("told")
        ctx.progress(1)
        ctx.now()
        seen.append(ctx.is_replaying)
        ctx.wait_for_event("go")

    world = waiting(code)
    assert "told" in caplog.text
    caplog.clear()
    assert replayed(world, code) is None
    assert ("told" in caplog.text, seen) == (False, [False, True])


# --- code that does not ----------------------------------------------------------------------


def old(ctx: Context) -> str:
    ctx.step("a", lambda: 1)
    ctx.step("b", lambda: 2)
    ctx.wait_for_event("go")
    return ctx.step("c", lambda: "c")


def told(code: Callable[..., Any], **changed: Any) -> tuple[str, str] | None:
    found = replayed(waiting(old), code, **changed)
    return None if found is None else (found.reason, found.path)


def test_steps_that_are_added_behind_the_wait_fit() -> None:
    def code(ctx: Context) -> None:
        ctx.step("b", forbidden)
        ctx.step("a", forbidden)
        ctx.wait_for_event("go")
        ctx.step("new", forbidden)

    assert told(code) is None


def test_a_step_that_is_gone() -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        ctx.wait_for_event("go")

    found = replayed(waiting(old), code)
    assert found is not None
    assert (found.run_id, found.workflow, found.path, found.reason) == (RUN_ID, NAME, "b", Reason.UNVISITED)
    assert found.text == (
        "The function comes to a rest at 'go' without having come by 'b', which the journal has. "
        "Say ctx.removed() for what the code no longer has."
    )


def test_a_step_that_is_gone_and_said_to_be() -> None:
    def code(ctx: Context) -> None:
        ctx.removed("b")
        ctx.step("a", forbidden)
        ctx.wait_for_event("go")

    assert told(code) is None


def test_a_value_that_nobody_asks_for_any_more_is_no_work_left_out() -> None:
    def timed(ctx: Context) -> None:
        ctx.now()
        ctx.step("a", lambda: 1)
        ctx.wait_for_event("go")

    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        ctx.wait_for_event("go")

    world = waiting(timed)
    assert "%now[1]" in world.entries
    assert replayed(world, code) is None


def test_a_function_that_returns_too_early() -> None:
    found = replayed(waiting(old), lambda ctx: ctx.step("a", forbidden))
    assert found is not None
    assert (found.reason, found.path) == (Reason.UNVISITED, "b")
    assert "The function returns without having come by 'b' and 1 more" in found.text


@pytest.mark.parametrize("name", ["new", "b renamed"])
def test_what_is_new_before_something_journaled(name: str) -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        ctx.step(name, forbidden)
        ctx.step("b", forbidden)

    found = replayed(waiting(old), code)
    assert found is not None
    assert (found.reason, found.path) == (Reason.NEW_CALL, name)
    assert f"comes to the new step {name!r} and has not come by 'b' and 1 more" in found.text


def test_what_is_new_behind_a_version_fits() -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        if ctx.version("checked", 2) >= 2:
            ctx.step("new", forbidden)
        ctx.now()
        ctx.rollback_checkpoint("also new")
        ctx.step("b", forbidden)
        ctx.wait_for_event("go")

    assert told(code) is None


def test_another_kind() -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        ctx.sleep("b", 1)

    found = replayed(waiting(old), code)
    assert found is not None
    assert (found.reason, found.path) == (Reason.DIVERGED, "b")
    assert found.text == "'b' is a step in the journal, but the code now asks for a sleep."


def test_another_kind_that_the_code_hides() -> None:
    def code(ctx: Context) -> None:
        try:
            ctx.sleep("a", 1)
        except BaseException:
            ctx.step("b", forbidden)

    assert told(code) == (Reason.DIVERGED, "a")


def test_a_name_that_is_used_twice() -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        ctx.step("a", forbidden)

    found = replayed(waiting(old), code)
    assert found is not None
    assert (found.reason, found.path) == (Reason.RAISED, "a")
    assert "'a' was used twice in this run" in found.text


def test_a_function_that_raises() -> None:
    def code(ctx: Context) -> None:
        ctx.step("a", forbidden)
        raise LookupError("gone")

    found = replayed(waiting(old), code)
    assert found is not None
    assert (found.reason, found.path) == (Reason.RAISED, "a")
    assert found.text == (
        "The function raises LookupError: gone, after 'a'. It did not come by 'b' and 1 more, which the journal has."
    )


def test_a_function_that_raises_as_it_did_the_last_time() -> None:
    """It waits to be tried again as a whole: that it raises is why, and no fault of this code."""

    def code(ctx: Context) -> None:
        for name in ("a", "b"):
            ctx.step(name, forbidden)
        ctx.wait_for_event("go")

    def raising(ctx: Context) -> None:
        ctx.step("a", lambda: 1)
        raise LookupError("gone")

    world = World()
    world.attempt(raising)
    assert replayed(world, raising, error=encode({"type": "LookupError"})) is None
    other = replayed(world, raising, error=encode({"type": "KeyError"}))
    assert other is not None and other.reason == Reason.RAISED


def test_an_error_that_the_journal_has_is_expected_where_nothing_comes_after_it() -> None:
    def careful(ctx: Context) -> None:
        ctx.try_step("a", refuse)
        ctx.wait_for_event("go")

    world = waiting(careful)
    careless = replayed(world, lambda ctx: ctx.step("a", refuse))
    assert careless is not None and (careless.reason, "StepFailed" in careless.text) == (Reason.RAISED, True)
    del world.entries["go"]
    assert replayed(world, lambda ctx: ctx.step("a", refuse)) is None


def test_a_wait_that_was_in_vain_is_expected_to_raise() -> None:
    def code(ctx: Context) -> None:
        ctx.wait_for_event("go", timeout=60)

    world = waiting(code)
    world.now += timedelta(days=1)
    world.attempt(code)
    assert world.entries["go"].status == EntryStatus.FAILED
    assert replayed(world, code) is None


def test_a_suspension_that_the_code_swallows() -> None:
    def code(ctx: Context) -> str:
        ctx.step("a", lambda: 1)
        try:
            ctx.sleep("nap", 60)
        except BaseException:
            return "woken"
        return ""

    def before(ctx: Context) -> None:
        ctx.step("a", lambda: 1)
        ctx.sleep("nap", 60)

    found = replayed(waiting(before), code)
    assert found is not None and (found.reason, found.path) == (Reason.RAISED, "nap")


def test_payloads_that_do_not_decode() -> None:
    world = waiting(old)
    world.entries["b"].value = '{"$":"gone","v":1}'
    found = replayed(world, old)
    assert found is not None and (found.reason, found.path) == (Reason.UNDECODABLE, "b")
    assert told(old, input='{"$":"gone","v":1}') == (Reason.UNDECODABLE, "")
    assert told(old, input=None) == (Reason.UNDECODABLE, "")
    assert told(old, input='{"order_id":1}') == (Reason.UNDECODABLE, "")
    assert told(old, unreadable="journal entry 'x': 'dance' is not a valid Kind") == (Reason.UNDECODABLE, "")


def test_a_workflow_that_nobody_knows() -> None:
    found = replay(recorded(World()), {})
    assert found is not None and (found.reason, found.path) == (Reason.UNKNOWN_WORKFLOW, "")


def test_every_branch_is_looked_at() -> None:
    def run(far: Callable[[Context], Any]) -> Callable[[Context], Any]:
        return lambda ctx: ctx.join("both", {"near": branch("near", waits=True), "far": far})

    world = waiting(run(branch("far", waits=True)))

    def without(ctx: Context) -> None:
        ctx.wait_for_event("far")

    def with_new(ctx: Context) -> None:
        ctx.step("zeroth", forbidden)

    def other_kind(ctx: Context) -> None:
        ctx.sleep("first", 1)

    found = [replayed(world, run(far)) for far in (without, with_new, other_kind)]
    assert [(one.reason, one.path) for one in found if one is not None] == [
        (Reason.UNVISITED, "both/far/first"),
        (Reason.NEW_CALL, "both/far/zeroth"),
        (Reason.DIVERGED, "both/far/first"),
    ]


def test_a_new_call_of_one_branch_is_no_excuse_for_another() -> None:
    """A process died in the step of the one: it is to be run. That does not tell what became of the other's."""

    def run(near: Callable[[Context], Any]) -> Callable[[Context], Any]:
        return lambda ctx: ctx.join("both", {"far": branch("far"), "near": near})

    world = waiting(run(branch("near", waits=True)))
    del world.entries["both/far/second"]
    world.entries["both"].status = EntryStatus.OPEN
    found = replayed(world, run(lambda ctx: ctx.wait_for_event("near")))
    assert found is not None and (found.reason, found.path) == (Reason.UNVISITED, "both/near/first")


@pytest.mark.parametrize("together", ["join", "race"])
def test_a_retry_of_one_branch_is_no_excuse_for_another(together: str) -> None:
    def run(near: Callable[[Context], Any]) -> Callable[[Context], Any]:
        return lambda ctx: getattr(ctx, together)("both", {"far": branch("far", waits=True), "near": near})

    world = waiting(run(branch("near", waits=True)))
    again = replace(world.entries["both/far/first"], status=EntryStatus.RETRYING, error=encode({}), value=None)
    world.entries["both/far/first"] = again
    world.entries["both"].status = EntryStatus.OPEN
    assert replayed(world, run(branch("near", waits=True))) is None
    found = replayed(world, run(lambda ctx: ctx.wait_for_event("near")))
    assert found is not None and (found.reason, found.path) == (Reason.UNVISITED, "both/near/first")


def resumed(code: Callable[[Context], Any], *paths: str) -> World:
    """As a run that failed for what is at ``paths`` has its journal once it is resumed."""
    world = World(step_retry=AT_ONCE)
    assert isinstance(world.run(code), Failed)
    for path in paths:
        entry = world.entries[path]
        error = TIMED_OUT if entry.error is None else entry.error
        world.entries[path] = replace(entry, status=EntryStatus.RETRYING, attempts=0, error=error, wake_at=None)
    return world


@pytest.mark.parametrize("how", ["poll", "event", "step"])
def test_what_is_to_be_tried_again_is_no_excuse_for_what_came_before_it_and_no_new_call(how: str) -> None:
    def asked(ctx: Context) -> None:
        match how:
            case "poll":
                ctx.poll("at", lambda: PENDING, every=1, timeout=1)
            case "event":
                ctx.wait_for_event("at", timeout=1)
            case _:
                ctx.step("at", refuse)

    def code(ctx: Context) -> None:
        ctx.step("before", lambda: 1)
        try:
            asked(ctx)
        except Exception as error:
            ctx.step("behind", lambda: 1)
            raise LookupError from error

    world = resumed(code, "at")
    assert replayed(world, code) is None
    found = replayed(world, asked)
    assert found is not None and (found.reason, found.path) == (Reason.UNVISITED, "before")
    assert "comes to a rest at 'at' without having come by 'before', which" in found.text


def test_what_takes_the_place_of_what_would_begin_anew_is_a_new_call() -> None:
    def code(ctx: Context) -> None:
        ctx.step("before", lambda: 1)
        ctx.poll("at", lambda: PENDING, every=1, timeout=1)

    world = resumed(code, "at")
    assert replayed(world, lambda ctx: [ctx.step("before", forbidden), ctx.step("at", forbidden)]) is None
    found = replayed(world, lambda ctx: ctx.step("at", forbidden))
    assert found is not None and (found.reason, found.path) == (Reason.NEW_CALL, "at")
    assert "the new step 'at'" in found.text


def test_the_present_turn_of_a_loop_is_looked_at() -> None:
    def run(step: str) -> Callable[[Context], Any]:
        def body(ctx: Context, state: int) -> Any:
            ctx.step(step, lambda: state)
            if state == 2:
                ctx.wait_for_event("go")
            return Continue(state + 1)

        return lambda ctx: ctx.loop("turns", body, 0)

    world = waiting(run("work"))
    assert {"turns[0]/work", "turns[2]/work"} <= world.entries.keys()
    assert replayed(world, run("work")) is None
    found = replayed(world, run("labour"))
    assert found is not None and (found.reason, found.path) == (Reason.NEW_CALL, "turns[2]/labour")

    def gone(ctx: Context) -> None:
        ctx.removed("turns", "loop")
        ctx.sleep("new", 1)

    assert replayed(world, gone) is None


def test_a_version_in_a_turn() -> None:
    def run(has_gate: bool) -> Callable[[Context], Any]:
        def body(ctx: Context, state: int) -> Any:
            if has_gate and ctx.version("gate", 2) >= 2:
                ctx.step("new", forbidden)
            ctx.step("work", lambda: state)
            if state == 1:
                ctx.wait_for_event("go")
            return Continue(state + 1)

        return lambda ctx: ctx.loop("turns", body, 0)

    assert replayed(waiting(run(False)), run(True)) is None


def test_a_map_of_another_length() -> None:
    def run(count: int) -> Callable[[Context], Any]:
        return lambda ctx: ctx.map("pack", Pack(), range(count))

    world = waiting(run(3))
    assert replayed(world, run(3)) is None
    found = replayed(world, run(4))
    assert found is not None and (found.reason, found.path) == (Reason.DIVERGED, "pack")


def test_scopes_that_are_decided_are_passed_by() -> None:
    def code(ctx: Context) -> None:
        ctx.join("both", {"l": branch("l"), "r": branch("r")})
        ctx.wait_for_event("go")

    world = waiting(code)

    def changed(ctx: Context) -> None:
        ctx.join("both", {"l": forbidden, "r": forbidden})
        ctx.wait_for_event("go")

    assert replayed(world, changed) is None


# --- runs that are ending --------------------------------------------------------------------


def test_a_run_that_is_to_be_undone_needs_its_compensations_and_nothing_else() -> None:
    def code(ctx: Context) -> None:
        ctx.step("book", lambda: 1, compensate=forbidden)
        ctx.step("pay", lambda: 1)
        ctx.wait_for_event("go")

    def shorter(ctx: Context) -> None:
        ctx.step("book", forbidden, compensate=forbidden)
        raise LookupError("as it did")

    world = waiting(code)
    assert replayed(world, shorter, phase=Phase.COMPENSATING) is None
    found = replayed(world, lambda ctx: ctx.step("pay", forbidden), phase=Phase.COMPENSATING)
    assert found is not None and (found.reason, found.text) == (
        Reason.DIVERGED,
        "Step 'book' has to be undone, but the code does not come to it any more: it ends after 'pay'.",
    )


def test_the_function_of_a_run_that_has_failed_is_not_called_again() -> None:
    assert told(lambda ctx: forbidden(), phase=Phase.ON_FAILURE) is None
    world = waiting(old)
    world.entries["%on_failure"] = Entry("%on_failure", Kind.STEP, EntryStatus.SUCCEEDED, value="null")
    assert replayed(world, old) is None


@pytest.mark.parametrize("limit", [None, 2])
def test_scopes_in_which_all_that_is_left_waits(limit: int | None) -> None:
    def inner(ctx: Context) -> Any:
        return ctx.race("first of", {"l": branch("l", waits=True), "r": branch("r", waits=True)})

    def code(ctx: Context) -> None:
        ctx.join("all", {"race": inner, "block": lambda ctx: ctx.try_block("block", branch("b", waits=True))})

    def retried(ctx: Context) -> None:
        ctx.map("map", refuse_odd, range(4), max_parallel=limit)

    world = waiting(code)
    assert {"all/race/first of/l/l", "all/race/first of/r/r", "all/block/block/b"} <= world.entries.keys()
    assert replayed(world, code) is None
    world = World()
    assert isinstance(world.attempt(retried), Suspended)
    assert replayed(world, retried) is None


def refuse_odd(number: int) -> None:
    if number % 2:
        raise ValueError("odd")

"""Replay with dicts: one attempt after the other, without a database, a worker or a real clock."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_durable.core import clock
from django_durable.core.context import Context
from django_durable.core.flow.flow import Flow
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import (
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Suspended,
)
from django_durable.core.journal.states import BlockReason, EntryStatus, Kind
from django_durable.core.payloads.codec import decode
from django_durable.core.retries import Retry
from django_durable.core.unwinding import Unwind
from django_durable.exceptions import ContextMisuse, EventTimeout, StepFailed, StepNameReused
from tests.core.driving import AT_ONCE, NOON, RUN_ID, TOKEN, Body, Crash, World

Travel = Callable[[float], None]

# --- the flow itself -------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-01d")
def test_a_name_is_unique_in_its_run() -> None:
    def body(ctx: Context) -> None:
        ctx.step("pay", int)
        ctx.step("pay", int)

    world = World()
    world.attempt(body)
    assert isinstance(world.error, StepNameReused)
    assert world.error.path == "pay"
    assert "key=" in str(world.error)
    assert world.performed == ["pay"]


@pytest.mark.behaviour("STEP-01d")
@pytest.mark.parametrize("second", ["sleep", "sleep_until", "wait_for_event", "run_workflow", "start_workflow"])
def test_a_name_is_unique_among_kinds(second: str) -> None:
    def body(ctx: Context) -> None:
        ctx.step("later", int)
        EVERY_CALL[second](ctx)

    world = World()
    world.attempt(body)
    assert isinstance(world.error, StepNameReused)
    assert list(world.entries) == ["later"]


class Child:
    child_key = None

    def new_child(self, *_: object) -> Any:
        raise AssertionError("must not be asked")


def test_keys_tell_calls_apart() -> None:
    def body(ctx: Context) -> list[int]:
        return [ctx.step("pay", lambda turn: turn * 10, turn, key=turn) for turn in range(3)]

    world = World()
    assert world.value(body) == [0, 10, 20]
    assert list(world.entries) == ["pay[0]", "pay[1]", "pay[2]"]


@pytest.mark.parametrize(
    ("journaled", "asked", "found", "expected"),
    [
        (lambda ctx: ctx.step("x", int), lambda ctx: ctx.sleep("x", 1), "step", "sleep"),
        (lambda ctx: ctx.step("x", int), lambda ctx: ctx.wait_for_event("x"), "step", "event"),
        (lambda ctx: ctx.step("x", int), lambda ctx: ctx.run_workflow("x", Child()), "step", "child"),
        (lambda ctx: ctx.step("x", int), lambda ctx: ctx.start_workflow("x", Child()), "step", "child"),
        (lambda ctx: ctx.sleep("x", 1), lambda ctx: ctx.step("x", int), "sleep", "step"),
        (lambda ctx: ctx.wait_for_event("x"), lambda ctx: ctx.sleep_until("x", NOON), "event", "sleep"),
    ],
)
def test_another_kind_under_the_name_blocks(journaled: Body, asked: Body, found: str, expected: str) -> None:
    world = World()
    world.attempt(journaled)
    before = deepcopy(world.entries)
    outcome = world.attempt(asked)
    assert isinstance(outcome, Blocked)
    assert outcome.reason == BlockReason.DIVERGED
    assert outcome.text == f"'x' is a {found} in the journal, but the code now asks for a {expected}."
    assert world.entries == before


def test_a_blocked_run_goes_on_when_the_code_fits_again() -> None:
    def fits(ctx: Context) -> int:
        return ctx.step("x", lambda: 7) + ctx.step("y", lambda: 1)

    world = World()
    world.crash_after = {1}
    with pytest.raises(Crash):
        world.attempt(fits)
    assert isinstance(world.attempt(lambda ctx: ctx.sleep("x", 1)), Blocked)
    assert world.value(fits) == 8
    assert world.performed == ["x", "y"]


def test_moving_steps_is_free() -> None:
    world = World()
    world.value(lambda ctx: [ctx.step("a", lambda: 1), ctx.step("b", lambda: 2)])
    swapped = world.value(lambda ctx: [ctx.step("b", lambda: 3), ctx.step("new", lambda: 4), ctx.step("a", lambda: 5)])
    assert swapped == [2, 4, 1]
    assert world.performed == ["a", "b", "new"]
    assert [entry.seq for entry in world.entries.values()] == [1, 2, 3]


# --- a closed context ------------------------------------------------------------------------

EVERY_CALL: dict[str, Callable[[Context], Any]] = {
    "step": lambda ctx: ctx.step("later", int),
    "sleep": lambda ctx: ctx.sleep("later", 1),
    "sleep_until": lambda ctx: ctx.sleep_until("later", NOON),
    "wait_for_event": lambda ctx: ctx.wait_for_event("later"),
    "run_workflow": lambda ctx: ctx.run_workflow("later", Child()),
    "start_workflow": lambda ctx: ctx.start_workflow("later", Child()),
    "now": lambda ctx: ctx.now(),
    "uuid4": lambda ctx: ctx.uuid4(),
    "random": lambda ctx: ctx.random(),
    "progress": lambda ctx: ctx.progress(1),
    "annotate": lambda ctx: ctx.annotate(stage="later"),
}


@pytest.mark.parametrize("call", EVERY_CALL.values(), ids=EVERY_CALL)
def test_after_a_suspension_every_call_unwinds_without_acting(call: Callable[[Context], Any]) -> None:
    reached = []

    def body(ctx: Context) -> None:
        try:
            ctx.sleep("nap", 60)
        except BaseException:
            reached.append("except")
        for _ in range(2):
            with pytest.raises(Unwind):
                call(ctx)
            reached.append("again")

    world = World()
    assert world.attempt(body) == Suspended("sleep:nap", wake_after=60)
    assert reached == ["except", "again", "again"]
    assert list(world.entries) == ["nap"]
    assert (world.progress, world.notes) == (None, None)
    assert world.performed == []


def test_finally_and_bare_except_change_nothing() -> None:
    def body(ctx: Context) -> str:
        try:
            try:
                ctx.sleep("nap", 60)
            finally:
                ctx.step("clean up", int)
        except:  # noqa: E722
            raise KeyError("something else") from None
        return "awake"

    world = World()
    assert world.attempt(body) == Suspended("sleep:nap", wake_after=60)
    assert list(world.entries) == ["nap"]
    world.now += timedelta(seconds=60)
    outcome = world.attempt(body)
    assert outcome == Completed('"awake"')
    assert world.performed == ["clean up"]


def test_exception_groups_change_nothing() -> None:
    def body(ctx: Context) -> None:
        try:
            ctx.sleep("nap", 60)
        except BaseException as error:
            raise BaseExceptionGroup("of a task group", [error, ValueError()]) from None

    assert World().attempt(body) == Suspended("sleep:nap", wake_after=60)


def test_except_exception_does_not_see_a_suspension() -> None:
    def body(ctx: Context) -> str:
        try:
            ctx.sleep("nap", 60)
        except Exception:
            return "swallowed"
        return "awake"

    world = World()
    assert isinstance(world.attempt(body), Suspended)
    world.now += timedelta(seconds=60)
    assert world.attempt(body) == Completed('"awake"')


def test_the_first_outcome_stands() -> None:
    def body(ctx: Context) -> None:
        with pytest.raises(Unwind):
            ctx.sleep("first", 1)
        with pytest.raises(Unwind):
            ctx.sleep("second", 2)
        world.lease.cancel_requested = True
        ctx.step("third", int)

    world = World()
    assert world.attempt(body) == Suspended("sleep:first", wake_after=1)


# --- ctx inside a step -----------------------------------------------------------------------


@pytest.mark.parametrize("call", EVERY_CALL.values(), ids=EVERY_CALL)
def test_ctx_inside_a_step_is_refused(call: Callable[[Context], Any]) -> None:
    def body(ctx: Context) -> None:
        ctx.step("outer", lambda: call(ctx))

    world = World(step_retry=Retry(max_attempts=1))
    world.attempt(body)
    assert isinstance(world.error, StepFailed)
    assert world.error.error["type"] == "django_durable.exceptions.ContextMisuse"
    assert "inside a step" in world.error.error["message"]
    assert list(world.entries) == ["outer"]


def test_a_driver_may_refuse_calls() -> None:
    def refuse(flow: Flow, name: str) -> None:
        raise ContextMisuse(f"{name} not here")

    def body(ctx: Context) -> None:
        world.flow.before_call = refuse
        for call in EVERY_CALL.values():
            with pytest.raises(ContextMisuse, match=r".+ not here"):
                call(ctx)

    world = World()
    assert isinstance(world.attempt(body), Completed)
    assert world.entries == {}


# --- what ends an attempt before the next step -----------------------------------------------


def stop_after_first(world: World, stop: Callable[[World], None]) -> Outcome:
    def first() -> None:
        stop(world)

    def body(ctx: Context) -> None:
        ctx.step("first", first)
        ctx.step("second", int)

    return world.attempt(body)


def past_deadline(world: World) -> None:
    assert world.deadline_at is not None
    world.now = world.deadline_at


def is_timeout(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.error["type"] == "django_durable.exceptions.RunTimeout"


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (lambda world: world.lease.lose(), lambda outcome: outcome == Lost()),
        (lambda world: world.lease.renew(float("-inf")), lambda outcome: outcome == Lost()),
        (lambda world: setattr(world.lease, "cancel_requested", True), lambda outcome: outcome == Cancelled()),
        (lambda world: setattr(world.lease, "release_requested", True), lambda outcome: outcome == Released()),
        (past_deadline, is_timeout),
    ],
    ids=["lost", "lapsed", "cancel", "release", "deadline"],
)
def test_no_step_starts_once_the_attempt_is_to_end(
    stop: Callable[[World], None], expected: Callable[[Outcome], bool]
) -> None:
    world = World(deadline_at=NOON + timedelta(hours=1))
    outcome = stop_after_first(world, stop)
    assert expected(outcome), outcome
    assert world.performed == ["first"]
    assert world.entries["first"].status == EntryStatus.SUCCEEDED


@pytest.mark.parametrize("call", ["step", "sleep", "wait_for_event", "run_workflow", "start_workflow"])
def test_nothing_new_begins_on_a_lost_lease(call: str) -> None:
    world = World()
    world.lease.lose()
    assert world.attempt(EVERY_CALL[call]) == Lost()
    assert world.commits == []
    assert not world.flow.pending


def test_journaled_steps_are_replayed_whatever_is_asked() -> None:
    """Only what is new has to wait: a replay up to the end may still complete."""

    def body(ctx: Context) -> int:
        return ctx.step("first", lambda: 5)

    world = World(deadline_at=NOON + timedelta(hours=1))
    assert world.value(body) == 5
    world.now += timedelta(hours=2)
    assert world.value(body) == 5


def test_the_deadline_itself_is_too_late() -> None:
    world = World(deadline_at=NOON)
    assert is_timeout(world.attempt(EVERY_CALL["step"]))
    world = World(deadline_at=NOON + timedelta(microseconds=1))
    assert isinstance(world.attempt(EVERY_CALL["step"]), Completed)


# --- the last part of a lease ----------------------------------------------------------------


def leased(**more: Any) -> World:
    """A run whose lease has 30 seconds, in the last 5 of which nothing begins."""
    return World(lease=Lease(RUN_ID, TOKEN, clock.monotonic() + 30), lease_margin=5.0, **more)


@pytest.mark.parametrize(("seconds", "performed"), [(24, ["first", "second"]), (25, ["first"]), (29, ["first"])])
def test_a_step_may_end_within_the_margin_but_none_begins(seconds: float, performed: list[str], travel: Travel) -> None:
    world = leased()
    outcome = stop_after_first(world, lambda world: travel(seconds))
    assert world.performed == performed
    assert isinstance(outcome, Completed if "second" in performed else Released)
    assert world.entries["first"].status == EntryStatus.SUCCEEDED


def test_past_its_end_nothing_is_handed_back(travel: Travel) -> None:
    assert stop_after_first(leased(), lambda world: travel(30)) == Lost()


@pytest.mark.parametrize("call", ["step", "sleep", "wait_for_event", "run_workflow", "start_workflow"])
def test_nothing_new_begins_within_the_margin(call: str, travel: Travel) -> None:
    world = leased()
    travel(26)
    assert world.attempt(EVERY_CALL[call]) == Released()
    assert world.entries == {}
    assert world.performed == []


def test_no_further_attempt_of_a_step_begins_within_the_margin(travel: Travel) -> None:
    def fail() -> None:
        travel(26)
        raise ValueError

    world = leased(step_retry=AT_ONCE)
    assert world.attempt(lambda ctx: ctx.step("x", fail)) == Released()
    assert world.performed == ["x"]
    assert (world.entries["x"].status, world.entries["x"].attempts) == (EntryStatus.RETRYING, 1)


def test_a_replay_up_to_the_end_completes_within_the_margin(travel: Travel) -> None:
    world = leased()
    assert world.value(lambda ctx: ctx.step("x", lambda: 5)) == 5
    travel(26)
    assert world.value(lambda ctx: ctx.step("x", lambda: 6)) == 5


def test_what_else_ends_the_attempt_comes_before_the_margin(travel: Travel) -> None:
    cancelled, late = leased(), leased(deadline_at=NOON)
    cancelled.lease.cancel_requested = True
    travel(26)
    assert cancelled.attempt(EVERY_CALL["step"]) == Cancelled()
    assert is_timeout(late.attempt(EVERY_CALL["step"]))


def test_a_renewed_lease_has_its_margin_at_its_new_end(travel: Travel) -> None:
    world = leased()

    def renew(world: World) -> None:
        travel(26)
        world.lease.renew(clock.monotonic() + 30)

    assert isinstance(stop_after_first(world, renew), Completed)


# --- any program, a crash anywhere -----------------------------------------------------------

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 2)),
        st.tuples(st.just("ephemeral"), st.just(0)),
        st.tuples(st.just("fail"), st.just(0)),
        st.tuples(st.just("sleep"), st.integers(-1, 3)),
        st.tuples(st.just("event"), st.integers(0, 2)),
        st.tuples(st.just("now"), st.just(0)),
        st.tuples(st.just("random"), st.just(0)),
    ),
    min_size=1,
    max_size=7,
)


class Program:
    """A sequential workflow made of operations; ``bodies`` counts how often each step's body returned."""

    def __init__(self, operations: list[tuple[str, int]]) -> None:
        self.operations = operations
        self.bodies: list[str] = []
        self.failures: dict[str, int] = {}

    def world(self) -> World:
        world = World(step_retry=AT_ONCE)
        for number in range(len(self.operations)):
            world.send("even" if number % 3 else "odd", number)
        return world

    def body(self, ctx: Context) -> list[Any]:
        return [self.do(ctx, f"{kind} {turn}", kind, number) for turn, (kind, number) in enumerate(self.operations)]

    def do(self, ctx: Context, name: str, kind: str, number: int) -> Any:
        match kind:
            case "step":
                return ctx.step(name, self.work, name, number)
            case "ephemeral":
                return ctx.step(name, self.work, name, 0, ephemeral=True)
            case "fail":
                try:
                    return ctx.step(name, self.work, name, 99)
                except StepFailed as error:
                    return [error.attempts, error.error["message"]]
            case "sleep":
                return ctx.sleep(name, number * 60)
            case "event":
                try:
                    event = ctx.wait_for_event(name, event="even" if number else "odd", timeout=number * 60)
                    return [event.name, event.payload]
                except EventTimeout:
                    return "too late"
            case "now":
                return ctx.now() >= NOON
            case _:
                return [str(ctx.uuid4()), ctx.random()]

    def work(self, name: str, failures: int) -> str:
        """Fails ``failures`` times, counted over all attempts, then returns."""
        self.failures[name] = count = self.failures.get(name, 0) + 1
        if count <= failures:
            raise ValueError(f"{name} refused")
        self.bodies.append(name)
        return f"{name} done"


@pytest.mark.behaviour("STEP-01c")
@settings(max_examples=40)
@given(OPERATIONS, st.booleans())
def test_a_crash_after_any_commit_changes_nothing(operations: list[tuple[str, int]], is_twice: bool) -> None:
    plain = Program(operations)
    undisturbed = plain.world()
    expected = undisturbed.value(plain.body)
    assert len(plain.bodies) == len(set(plain.bodies))
    for commit in range(1, len(undisturbed.commits) + 1):
        program = Program(operations)
        world = program.world()
        world.crash_after = {commit, commit + 1} if is_twice else {commit}
        assert world.value(program.body) == expected
        durable = [name for name in program.bodies if not name.startswith("ephemeral")]
        assert len(durable) == len(set(durable))
        journaled = {path for path, entry in world.entries.items() if entry.kind == Kind.STEP}
        assert set(program.bodies) <= journaled
        assert [path for path, entry in world.entries.items() if entry.status == EntryStatus.WAITING] == []


@settings(max_examples=20)
@given(OPERATIONS)
def test_a_crash_before_any_commit_repeats_one_step_at_most(operations: list[tuple[str, int]]) -> None:
    # Steps that fail by count would fail differently: their bodies are asked again after the crash.
    operations = [operation for operation in operations if operation[0] != "step" or operation[1] == 0]
    plain = Program(operations)
    undisturbed = plain.world()
    expected = undisturbed.value(plain.body)
    for commit in range(1, len(undisturbed.commits) + 1):
        program = Program(operations)
        world = program.world()
        world.crash_before = commit
        assert world.value(program.body) == expected
        durable = [name for name in program.bodies if not name.startswith("ephemeral")]
        assert len(durable) - len(set(durable)) <= 1


@pytest.mark.behaviour("RUN-05c")
def test_a_crash_costs_a_replay_and_no_step() -> None:
    """The same as above, for one program that is easy to read."""
    program = Program([("step", 1), ("sleep", 2), ("event", 2), ("fail", 0), ("step", 0)])
    world = program.world()
    world.crash_after = {4}
    outcome = world.run(program.body)
    assert isinstance(outcome, Completed)
    assert decode(outcome.output) == [
        "step 0 done",
        None,
        ["even", 1],
        [3, "fail 3 refused"],
        "step 4 done",
    ]
    assert program.bodies == ["step 0", "step 4"]
    assert world.attempts == 3


# --- what is to be committed -----------------------------------------------------------------


def test_write_is_false_when_there_is_nothing() -> None:
    assert not Write()
    assert Write(progress="{}")
    assert Write(consumed={1: "x"})
    assert Write(outcome=Released())

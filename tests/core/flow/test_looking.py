"""How far a line goes that only looks for what there is to undo. What it passes by of each kind: see the executor's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.flow.looking import PASSED_MAX
from django_durable.core.journal.journal import TIMED_OUT
from django_durable.core.journal.outcomes import Blocked, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.kinds.polls import PENDING
from django_durable.core.payloads.codec import encode
from django_durable.exceptions import PollTimeout, RaceError, StepFailed

from ..driving import AT_ONCE, World

Do = Callable[[Context, str], Any]


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def do(log: list[str]) -> Do:
    def step(ctx: Context, name: str) -> Any:
        return ctx.step(name, lambda: log.append(name) or name, compensate=lambda value: log.append(f"-{value}"))

    return step


def test_it_ends_where_nothing_lies_ahead(log: list[str], do: Do) -> None:
    world = World()

    def body(ctx: Context) -> None:
        do(ctx, "a")
        ctx.wait_for_event("go")

    assert isinstance(world.attempt(body), Suspended)

    def changed(ctx: Context) -> None:
        do(ctx, "a")
        ctx.now()
        log.append("further")

    world.undo(changed)
    assert log == ["a", "-a"]


@pytest.mark.parametrize("call", ["sleep", "join", "race"])
def test_code_that_waits_for_the_time_to_come_does_not_keep_it_for_ever(log: list[str], do: Do, call: str) -> None:
    world = World()
    world.attempt(lambda ctx: [do(ctx, "a"), ctx.wait_for_event("go")])

    def changed(ctx: Context) -> None:
        for turn in range(PASSED_MAX + 10):
            getattr(ctx, call)("nap", 1 if call == "sleep" else {"a": lambda ctx: 1}, key=turn)
            log.append("turn")

    outcome = world.attempt(lambda ctx: world._undo(changed))
    assert isinstance(outcome, Blocked) and "'a' has to be undone" in outcome.text
    assert log.count("turn") == PASSED_MAX


def test_calls_that_the_journal_has_are_gone_on_from_however_many_they_are(log: list[str], do: Do) -> None:
    world = World()

    def refused() -> None:
        raise OSError

    def body(ctx: Context) -> None:
        for number in range(PASSED_MAX + 1):
            ctx.try_step("pay", refused, key=number)
            ctx.try_block("at", lambda ctx: 1, key=number)
        do(ctx, "b")
        raise ValueError

    world.step_retry = AT_ONCE
    assert isinstance(world.run(body), Failed)
    for entry in world.entries.values():
        if entry.kind == Kind.STEP and entry.status == EntryStatus.FAILED:
            entry.status, entry.attempts = EntryStatus.RETRYING, 0
        elif entry.kind == Kind.BLOCK:
            entry.status, entry.value = EntryStatus.OPEN, None
    assert world.undo(body) == {}
    assert log == ["b", "-b"]


def test_it_ends_at_what_is_to_be_decided_again_where_nothing_lies_ahead(log: list[str], do: Do) -> None:
    world = World()

    def body(ctx: Context) -> None:
        do(ctx, "a")
        with suppress(PollTimeout):
            ctx.poll("at", lambda: PENDING, every=1, timeout=0.5)
        log.append("further")
        raise ValueError

    assert isinstance(world.run(body), Failed)
    entry = world.entries["at"]
    entry.status, entry.attempts, entry.error = EntryStatus.RETRYING, 0, TIMED_OUT
    assert world.undo(body) == {}
    assert log == ["a", "further", "-a"]


def test_it_is_told_where_the_code_came_to_last(do: Do) -> None:
    world = World()
    world.attempt(lambda ctx: [do(ctx, name) for name in "abc"] + [ctx.wait_for_event("never")])
    outcome = world.attempt(lambda ctx: world._undo(lambda ctx: [do(ctx, "a"), do(ctx, "c")]))
    assert isinstance(outcome, Blocked) and outcome.text.endswith("any more: it ends after 'c'.")


@pytest.mark.parametrize("nests", [False, True])
@pytest.mark.parametrize("inner", ["join", "race"])
def test_a_branch_goes_no_further_for_what_lies_in_the_others_however_deep_it_is(
    log: list[str], do: Do, inner: str, nests: bool
) -> None:
    world, changed = World(), [False]

    def endless(ctx: Context) -> None:
        ctx.loop("tick", lambda ctx, state: ctx.sleep("nap", 5))

    def near(ctx: Context) -> None:
        do(ctx, "n")
        if nests:
            getattr(ctx, inner)("inner", {"x": endless})
        else:
            endless(ctx)

    def far(ctx: Context) -> None:
        if changed[0]:
            ctx.version("since", 2)
        do(ctx, "a")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.join("outer", {"near": near, "far": far})

    world.attempt(body)
    changed[0] = True
    assert world.undo(body) == {}
    assert log == ["n", "a", "-a", "-n"]


def test_a_branch_goes_no_further_for_what_lies_in_the_others(log: list[str], do: Do) -> None:
    world, far = World(), [False]

    def beside(ctx: Context) -> None:
        if far[0]:
            ctx.now()
            log.append("further")
        ctx.wait_for_event("never")

    def other(ctx: Context) -> None:
        do(ctx, "a")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.join("both", {"beside": beside, "other": other})

    world.attempt(body)
    far[0] = True
    world.undo(body)
    assert log == ["a", "-a"]


def test_a_scope_that_is_over_is_left_for_what_comes_after_it(log: list[str], do: Do) -> None:
    world, far = World(), [False]

    def block(ctx: Context) -> None:
        do(ctx, "a")
        if far[0]:
            ctx.now()
            log.append("further")

    def body(ctx: Context) -> None:
        ctx.try_block("at", block)
        do(ctx, "b")
        ctx.wait_for_event("never")

    world.attempt(body)
    far[0] = True
    world.undo(body)
    assert log == ["a", "b", "-b", "-a"]


@pytest.mark.parametrize("first", [0, 2, 3])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_turn_that_raised_with_nothing_journaled_is_come_past(
    log: list[str], do: Do, first: int, keeps: bool
) -> None:
    world = World(step_retry=AT_ONCE)

    def turn(ctx: Context, n: int) -> Any:
        if n == 3:
            raise KeyError
        if keeps:
            ctx.step("s", int)
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        try:
            ctx.loop("rows", turn, first)
        except KeyError:
            do(ctx, "instead")
        raise ValueError

    assert isinstance(world.run(body), Failed)
    assert world.undo(body) == {}
    assert log == ["instead", "-instead"]


@pytest.mark.parametrize("returned", [Break(object()), Continue(object()), "neither", None], ids=str)
def test_a_loop_that_raised_for_what_its_turn_returned_is_come_past(log: list[str], do: Do, returned: Any) -> None:
    world = World(step_retry=AT_ONCE)

    def turn(ctx: Context, n: int) -> Any:
        do(ctx, "inside")
        return returned

    def body(ctx: Context) -> None:
        try:
            ctx.loop("rows", turn, 0, max_iterations=1)
        except Exception:
            do(ctx, "instead")
        raise ValueError

    assert isinstance(world.run(body), Failed)
    assert world.undo(body) == {}
    assert log == ["inside", "instead", "-instead", "-inside"]


def test_a_loser_whose_loop_raised_is_undone_behind_it(log: list[str], do: Do) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        raise KeyError

    def loser(ctx: Context) -> None:
        try:
            ctx.loop("rows", turn, 0)
        except KeyError:
            do(ctx, "lost")
        ctx.sleep("long", 600)

    def body(ctx: Context) -> Any:
        return ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.sleep("nap", 1)})[0]

    assert world.value(body) == "winner"
    assert log == ["lost", "-lost"]


def test_nothing_is_said_on_the_way(log: list[str], do: Do) -> None:
    world, speaks = World(), [False]

    def body(ctx: Context) -> None:
        event = ctx.wait_for_event("question")
        if speaks[0]:
            ctx.now()
            log.append(f"replays: {ctx.is_replaying}")
            ctx.annotate(new=1)
            ctx.progress(1)
            event.complete(1)
            ctx.join("new", {"a": lambda ctx: 1})
        do(ctx, "a")
        ctx.wait_for_event("never")

    world.send("question")
    world.attempt(body)
    speaks[0] = True
    world.undo(body)
    assert log == ["a", "replays: True", "-a"]
    assert (world.notes, world.progress, world.answers) == (None, None, {})


def test_a_race_that_is_open_is_not_lost_by_all_as_long_as_one_may_win(log: list[str], do: Do) -> None:
    world = World()
    world.attempt(lambda ctx: [do(ctx, "a"), ctx.wait_for_event("never")])

    def changed(ctx: Context) -> None:
        with suppress(RaceError):
            ctx.race("new", {"fails": lambda ctx: 1 / 0, "waits": lambda ctx: ctx.wait_for_event("go")})
        do(ctx, "a")

    assert isinstance(world.attempt(lambda ctx: world._undo(changed)), Blocked)
    assert log == ["a"]


@pytest.mark.parametrize("how", ["its winner is to win again", "its loser has another order"])
def test_a_loser_of_a_race_that_was_decided_is_looked_through(log: list[str], do: Do, how: str) -> None:
    world, order = World(), [1, -1]

    def loser(ctx: Context) -> None:
        for call in [lambda: do(ctx, "lost"), lambda: ctx.sleep("long", 600)][:: order[0]]:
            call()

    def body(ctx: Context) -> None:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: 1})

    world.attempt(body, settles=False)
    if how == "its winner is to win again":
        world.entries["any"].value = encode(["winner"])
    else:
        order.reverse()
    assert world.undo(body) == {}
    assert log == ["lost", "-lost"]


@pytest.mark.parametrize("around", ["nothing", "block", "join", "map"])
def test_a_step_that_is_tried_again_has_failed_for_what_came_after_that(log: list[str], do: Do, around: str) -> None:
    """As an operator's resume leaves it: the entry is open again, and so are those around it."""
    world = World(step_retry=AT_ONCE)

    def pay(ctx: Context) -> Any:
        def fail() -> None:
            raise OSError("away")

        match around:
            case "map":
                return ctx.map("at", lambda item: fail(), [1])
            case "join":
                return ctx.join("at", {"a": lambda ctx: ctx.step("pay", fail)})
            case "block":
                outcome = ctx.try_block("at", lambda ctx: ctx.step("pay", fail))
                assert outcome.failure is not None
                raise outcome.failure
        return ctx.step("pay", fail)

    def body(ctx: Context) -> None:
        try:
            pay(ctx)
        except Exception as error:
            log.append(type(error).__name__)
        do(ctx, "b")
        raise ValueError

    world.run(body)
    raised = log[0]
    assert raised == {"nothing": StepFailed.__name__, "block": "BlockFailed"}.get(around, "JoinError")
    for entry in world.entries.values():
        if entry.status == EntryStatus.FAILED:
            is_step = entry.kind == "step"
            entry.status = EntryStatus.RETRYING if is_step else EntryStatus.OPEN
            entry.error = entry.error if is_step else None
    assert world.undo(body) == {}
    assert log == [raised, "b", raised, "-b"]

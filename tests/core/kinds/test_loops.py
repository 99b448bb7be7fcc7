"""Loops: state, bounded journals, and everything else inside a turn."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.outcomes import Completed, Failed, Paused, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.core.kinds import loops
from django_durable.core.kinds.loops import Break, Continue, limited_anew, position, present_turn
from django_durable.core.retries import Retry
from django_durable.exceptions import LoopLimit, RetryLater

from ..driving import AT_ONCE, NOON, Crash, World, failing


def count_to(limit: int) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("count", lambda: n)
        return Break(n) if n == limit else Continue(n + 1)

    return turn


@pytest.mark.behaviour("FLOW-03a")
def test_the_state_goes_from_turn_to_turn_and_break_ends_it_with_a_value() -> None:
    world = World()
    assert world.value(lambda ctx: ctx.loop("count", count_to(3), 0)) == 3
    assert world.performed == [f"count[{n}]/count" for n in range(4)]


@pytest.mark.behaviour("FLOW-03b")
def test_a_turn_that_returns_nothing_goes_on_with_no_state() -> None:
    states: list[Any] = []

    def turn(ctx: Context, state: Any) -> Any:
        states.append(state)
        return Break() if len(states) == 3 else None

    assert World().value(lambda ctx: ctx.loop("plain", turn)) is None
    assert states == [None, None, None]


def test_the_state_is_what_the_journal_gives_back_and_no_turn_shares_it_with_another() -> None:
    seen: list[list[int]] = []

    def turn(ctx: Context, state: list[int]) -> Any:
        state.append(len(state))
        seen.append(state)
        return Break(state) if len(state) == 3 else Continue(state)

    assert World().value(lambda ctx: ctx.loop("grow", turn, [])) == [0, 1, 2]
    assert seen == [[0], [0, 1], [0, 1, 2]]


@pytest.mark.behaviour("FLOW-03c")
def test_a_break_value_is_replayed_also_none() -> None:
    world = World()
    turns: list[Any] = []

    def turn(ctx: Context, state: Any) -> Any:
        turns.append(state)
        return Break(None)

    def body(ctx: Context) -> Any:
        value = ctx.loop("once", turn)
        ctx.sleep("later", 5)
        return value

    assert world.value(body) is None
    assert turns == [None]


@pytest.mark.behaviour("WAIT-01f")
def test_after_a_sleep_the_turns_before_are_not_replayed() -> None:
    world, replayed = World(), []

    def turn(ctx: Context, n: int) -> Any:
        replayed.append(n)
        ctx.step("work", lambda: n)
        ctx.sleep("rest", 60)
        return Break(n) if n == 4 else Continue(n + 1)

    assert world.value(lambda ctx: ctx.loop("poll", turn, 0)) == 4
    assert replayed == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert world.performed == [f"poll[{n}]/work" for n in range(5)]


@pytest.mark.behaviour("FLOW-03g")
@pytest.mark.parametrize("history", [0, 1, 5])
def test_no_more_than_history_turns_stay_in_the_journal(history: int) -> None:
    world, most = World(), 0

    def turn(ctx: Context, n: int) -> Any:
        nonlocal most
        ctx.step("a", lambda: 1)
        ctx.join("b", {"x": lambda ctx: ctx.step("c", lambda: 2)})
        turns = {path.partition("]")[0] for path in world.entries if "[" in path}
        most = max(most, len(turns))
        return Break("over") if n == 30 else Continue(n + 1)

    assert world.value(lambda ctx: ctx.loop("long", turn, 0, history=history)) == "over"
    # What is pruned leaves with the next commit: the turn under way, the one before it, and the history.
    assert most <= history + 2
    assert set(world.entries) == {"long"}


@pytest.mark.behaviour("FLOW-03d")
@pytest.mark.parametrize("commit", range(1, 12))
def test_a_crash_in_any_turn_goes_on_from_the_saved_state(commit: int) -> None:
    world = World(crash_after={commit})
    assert world.value(lambda ctx: ctx.loop("count", count_to(8), 0, history=2)) == 8
    assert world.performed == [f"count[{n}]/count" for n in range(9)]


@pytest.mark.behaviour("FLOW-03e")
def test_a_loop_within_a_loop_and_branches_within_a_turn() -> None:
    world = World()

    def inner(ctx: Context, n: int) -> Any:
        ctx.sleep("nap", 1)
        return Break(ctx.step("end", lambda: "in")) if n == 2 else Continue(n + 1)

    def outer(ctx: Context, n: int) -> Any:
        both = ctx.join("both", {"a": lambda ctx: ctx.loop("inner", inner, 0), "b": lambda ctx: ctx.sleep("c", 2)})
        name, value = ctx.race(
            "any", {"a": lambda ctx: ctx.step("fast", lambda: n), "b": lambda ctx: ctx.sleep("s", 99)}
        )
        return Break((both, name, value)) if n == 2 else Continue(n + 1)

    assert world.value(lambda ctx: ctx.loop("outer", outer, 0)) == ({"a": "in", "b": None}, "a", 2)


@pytest.mark.behaviour("FLOW-03f")
def test_what_a_turn_raises_leaves_the_loop() -> None:
    world = World(step_retry=AT_ONCE)

    def turn(ctx: Context, n: int) -> Any:
        if n == 2:
            raise KeyError("two")
        return Continue(n + 1)

    assert isinstance(world.run(lambda ctx: ctx.loop("bad", turn, 0)), Failed)
    assert isinstance(world.error, KeyError)


@pytest.mark.behaviour("FLOW-03j")
def test_max_iterations() -> None:
    world = World()

    def body(ctx: Context) -> Any:
        try:
            return ctx.loop("endless", lambda ctx, n: Continue(n + 1), 0, max_iterations=7)
        except LoopLimit as error:
            ctx.sleep("later", 1)
            return error.limit

    assert world.value(body) == 7


def test_history_and_limit_may_be_given_by_position_and_the_key_by_name() -> None:
    world = World()
    world.run(lambda ctx: ctx.loop("l", count_to(9), 0, 2, 5, key="k"))
    assert isinstance(world.error, LoopLimit)
    assert world.performed == [f"l[k][{n}]/count" for n in range(5)]
    assert {path for path in world.entries if path.endswith("/count")} == {"l[k][3]/count", "l[k][4]/count"}
    world.run(lambda ctx: ctx.loop("l", count_to(9), 0, 2, 5, "k"))
    assert isinstance(world.error, TypeError)


@pytest.mark.behaviour("FLOW-03k")
def test_a_loop_whose_condition_is_false_from_the_start_does_nothing() -> None:
    def turn(ctx: Context, state: list[list[int]]) -> Any:
        left, done = state
        if not left:
            return Break(done)
        return Continue([left[1:], [*done, ctx.step("do", int, left[0])]])

    world = World()
    assert world.value(lambda ctx: ctx.loop("each", turn, [[], []])) == []
    assert (world.performed, set(world.entries)) == ([], {"each"})
    assert World().value(lambda ctx: ctx.loop("each", turn, [[7], []])) == [7]


@pytest.mark.behaviour("FLOW-03j")
def test_a_loop_whose_limit_is_zero_makes_no_turn() -> None:
    world = World()
    world.run(lambda ctx: ctx.loop("none", lambda ctx, state: 1 / 0, max_iterations=0))
    assert isinstance(world.error, LoopLimit)


def test_a_turn_must_say_how_to_go_on() -> None:
    world = World()
    world.run(lambda ctx: ctx.loop("odd", lambda ctx, state: 5))
    assert isinstance(world.error, TypeError) and "Continue, Break or None" in str(world.error)


@pytest.mark.parametrize("options", [{"history": -1}, {"history": None}, {"max_iterations": -1}, {"history": True}])
def test_options_that_are_refused(options: dict[str, Any]) -> None:
    world = World()
    world.run(lambda ctx: ctx.loop("odd", lambda ctx, state: Break(), **options))
    assert isinstance(world.error, TypeError)


def test_an_endless_loop_that_does_nothing_durable_keeps_one_entry() -> None:
    world = World()
    assert world.value(lambda ctx: ctx.loop("spin", lambda ctx, n: Break(n) if n == 500 else Continue(n + 1), 0)) == 500
    assert set(world.entries) == {"spin"} and len(world.commits) == 2


ASKED: dict[str, Callable[[World], None]] = {
    "cancel": lambda world: setattr(world.lease, "cancel_requested", True),
    "pause": lambda world: setattr(world.lease, "pause_requested", True),
    "lost": lambda world: world.lease.lose(),
    "deadline": lambda world: setattr(world, "now", world.now + timedelta(hours=2)),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("call", [lambda ctx: None, lambda ctx: ctx.now()], ids=["nothing", "now"])
def test_a_loop_heeds_what_is_asked_of_its_run_although_no_turn_does_anything_durable(asked: str, call: Any) -> None:
    world, turns = World(deadline_at=NOON + timedelta(hours=1)), []

    def turn(ctx: Context, n: int) -> Any:
        call(ctx)
        turns.append(n)
        if n == 10:
            ASKED[asked](world)
        return Break() if n == 100 else Continue(n + 1)

    assert not isinstance(world.attempt(lambda ctx: ctx.loop("spin", turn, 0)), Completed)
    assert turns[-1] == 10


def test_a_loop_whose_turns_commit_nothing_does_so_now_and_then_and_hears_what_is_asked() -> None:
    """What is asked of a run comes with its commits where no heartbeat brings it."""
    world = World(pause_after={2})

    def turn(ctx: Context, n: int) -> Any:
        world.now += timedelta(milliseconds=100)
        return Break(n) if n == 100 else Continue(n + 1)

    assert isinstance(world.attempt(lambda ctx: ctx.loop("spin", turn, 0)), Paused)
    number, *_ = position(world.entries["spin"].value or "")
    assert 10 < number < 30


@pytest.mark.behaviour("FLOW-03h")
def test_turns_left_by_an_earlier_claim_are_pruned_too() -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        ctx.step("work", lambda: n)
        if n % 4 == 3:
            ctx.wait_for_event("go")
        return Continue(n + 1)

    for _ in range(6):
        assert isinstance(world.attempt(lambda ctx: ctx.loop("on", turn, 0, history=3)), Suspended)
        world.send("go")
    works = [entry for path, entry in world.entries.items() if path.endswith("work")]
    assert len(works) <= 4
    pruned = [path for write in world.commits for path in write.forgotten]
    assert len(pruned) == len(set(pruned)) > 20
    assert all(entry.status == EntryStatus.SUCCEEDED for entry in works)


def test_a_turn_that_raises_stop_iteration_is_told_as_such() -> None:
    def turn(ctx: Context, state: Any) -> Any:
        return next(iter(()))

    world = World()
    world.run(lambda ctx: ctx.loop("empty", turn))
    assert "turn of loop 'empty' raised StopIteration" in str(world.error)


# --- losers in its turns -----------------------------------------------------------------------


@pytest.mark.behaviour("FLOW-02d", "FLOW-03g")
@pytest.mark.parametrize("crashes", [set(), {30, 70, 150, 151, 152}])
def test_what_losers_in_turns_did_is_undone_before_too_many_turns_stay_for_it(crashes: set[int]) -> None:
    world, undone, sizes = World(crash_after=crashes), [], []

    def turn(ctx: Context, n: int) -> Any:
        def loser(ctx: Context) -> None:
            ctx.step("offer", lambda: n, compensate=undone.append)
            ctx.wait_for_event("never")

        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", lambda: n)})
        sizes.append(world.flow.journal.size)
        return Break(n) if n == 99 else Continue(n + 1)

    assert world.value(lambda ctx: ctx.loop("rows", turn, 0, history=0)) == 99
    # Each turn: the race, two steps, the wait, the turn itself and what undoes it.
    assert max(sizes) <= 6 * (loops.LOST_MAX + 2)
    assert sorted(set(undone)) == list(range(100))
    assert len(undone) <= 100 + len(crashes)


def test_turns_that_a_failure_of_the_run_would_undo_stay_while_losers_in_them_are_undone() -> None:
    world, undone = World(), []

    def turn(ctx: Context, n: int) -> Any:
        def loser(ctx: Context) -> None:
            ctx.step("offer", lambda: f"offer {n}", compensate=undone.append)
            ctx.wait_for_event("never")

        ctx.step("order", lambda: f"order {n}", compensate=undone.append)
        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", lambda: n)})
        if n == 25:
            raise ValueError
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0, history=0)

    world.run(body)
    assert undone == [f"offer {n}" for n in range(loops.LOST_MAX, -1, -1)]
    assert world.undo(body) == {}
    assert sorted(undone) == sorted(f"{what} {n}" for what in ("offer", "order") for n in range(26))


def offering(world: World, undo: Callable[[Any], Any], last: int | None = None) -> Callable[[Context], Any]:
    """A loop with a race in each turn; the winner's branch wins after the loser has done its step."""

    def turn(ctx: Context, n: int) -> Any:
        def loser(ctx: Context) -> None:
            ctx.step("offer", lambda: n, compensate=undo)
            ctx.wait_for_event("never")

        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", lambda: n)})
        return Break(n) if n == last else Continue(n + 1)

    return lambda ctx: ctx.loop("rows", turn, 0, history=0)


def crash_with(world: World, path: str) -> None:
    """The process dies with the commit that has the entry at ``path`` as succeeded."""
    commit = world.commit

    def dying(write: Any) -> None:
        commit(write)
        if path in write.entries and write.entries[path].status == EntryStatus.SUCCEEDED:
            raise Crash

    world.commit = dying  # type: ignore[method-assign]


@pytest.mark.behaviour("FLOW-06l")
@pytest.mark.parametrize("turns", [2, 3, 4])
def test_a_run_that_dies_where_a_loop_is_about_to_undo_its_losers_undoes_them_all_when_it_is_cancelled(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the last turn is over is not stored: a replay comes to its end, and must not take that for the loop's."""
    monkeypatch.setattr(loops, "LOST_MAX", 2)
    world, undone = World(), []
    body = offering(world, undone.append)
    crash_with(world, f"rows[{turns - 1}]/any")
    with pytest.raises(Crash):
        world.attempt(body)
    world.lease.cancel_requested = True
    assert world.undo(body) == {}
    assert sorted(undone) == list(range(turns))


@pytest.mark.behaviour("FLOW-06d")
def test_a_loser_s_loop_is_undone_once_while_another_compensation_is_tried_again() -> None:
    flaky, undone = failing(OSError("away"), OSError("away")), []
    world = World(step_retry=Retry(max_attempts=4, initial=1, factor=1, jitter=0), crash_after={3})

    def loser(ctx: Context) -> None:
        ctx.step("hard", lambda: 1, compensate=lambda value: flaky())
        turn = lambda ctx, n: ctx.step("offer", lambda: n, compensate=undone.append) or Continue(1)  # noqa: E731
        ctx.loop("rows", lambda ctx, n: turn(ctx, n) if n == 0 else Break(), 0, history=0)
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", int)})
        ctx.wait_for_event("go")

    # After the crash the winner is the first: the loser's turn is over, and that is not stored.
    world.pick = lambda spawned: spawned[0] if world.attempts == 1 else spawned[-1]
    assert isinstance(world.run(body), Suspended)
    assert undone == [0] and world.entries["any/loser/hard%undo"].attempts == 3


def test_a_loop_s_compensation_that_is_to_be_tried_again_later_is_not_when_the_attempt_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "LOST_MAX", 1)
    world, tries = World(), []

    def undo(n: int) -> None:
        tries.extend([world.now] if n == 1 else [])
        if n == 1 and len(tries) < 3:
            raise RetryLater(after=30 * len(tries))

    outcome = world.attempt(offering(world, undo))
    assert isinstance(outcome, Suspended) and outcome.paths == ("rows[1]/any/loser/offer%undo",)
    assert outcome.wake_after == 30
    world.value(offering(world, undo, last=3))
    assert tries == [NOON, NOON + timedelta(seconds=30), NOON + timedelta(seconds=90)]


def test_a_turn_that_waits_for_its_loser_to_be_undone_keeps_no_others_in_the_journal() -> None:
    world, sizes = World(), []

    def turn(ctx: Context, n: int) -> Any:
        def loser(ctx: Context) -> None:
            ctx.step("offer", lambda: n, compensate=lambda value: None)
            ctx.wait_for_event("never")

        if n == 0:
            ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", lambda: n)})
        ctx.rollback_checkpoint("stands")
        ctx.step("work", lambda: n, compensate=lambda value: None)
        sizes.append(world.flow.journal.size)
        return Break() if n == 40 else Continue(n + 1)

    world.value(lambda ctx: ctx.loop("rows", turn, 0, history=2))
    assert sizes[40] == sizes[20]


def test_where_a_loop_stands_is_read_without_its_state_which_other_code_may_have_made() -> None:
    value = '[7,{"$":"@of.another.release","v":[1.50,"\\u00fc"]}]'
    assert present_turn(value) == 7
    assert limited_anew(value) == '[7,{"$":"@of.another.release","v":[1.5,"\\u00fc"]},7]'

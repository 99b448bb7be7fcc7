"""Undoing: last first, each compensation an entry of its own, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import MemoryJournal
from django_durable.core.journal.outcomes import Blocked, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue
from django_durable.core.retries import Retry

from ..driving import AT_ONCE, Crash, World, failing


class Shop:
    """What was done, and undone, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def do(self, ctx: Context, name: str, **options: Any) -> Any:
        return ctx.step(name, self._do, name, compensate=self.undo, **options)

    def _do(self, name: str) -> str:
        self.log.append(name)
        return name

    def undo(self, name: str) -> None:
        self.log.append(f"-{name}")


@pytest.fixture
def shop() -> Shop:
    return Shop()


def undone(shop: Shop) -> list[str]:
    return [name for name in shop.log if name.startswith("-")]


@pytest.mark.behaviour("FLOW-06a", "FLOW-06b")
def test_completed_steps_are_undone_last_first_and_the_failed_one_is_not(shop: Shop) -> None:
    world = World(step_retry=AT_ONCE)

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        shop.do(ctx, "b")
        ctx.step("c", failing(*[ValueError("no")] * 3), compensate=lambda value: shop.log.append("-c"))

    assert isinstance(world.run(body), Failed)
    assert world.undo(body) == {}
    assert shop.log == ["a", "b", "-b", "-a"]
    entry = world.entries["b%undo"]
    assert (entry.kind, entry.status, entry.attempts) == (Kind.UNDO, EntryStatus.SUCCEEDED, 1)


def test_the_compensation_gets_what_was_journaled_whatever_the_workflow_made_of_it() -> None:
    world, given = World(), []

    def body(ctx: Context) -> None:
        lines = ctx.step("lines", lambda: [1, 2], compensate=given.append)
        lines.clear()
        raise ValueError

    world.run(body)
    world.undo(body)
    assert given == [[1, 2]]


@pytest.mark.behaviour("FLOW-06c")
def test_one_that_fails_is_recorded_with_its_attempts_and_the_next_ones_still_run(shop: Shop) -> None:
    world, broken = World(step_retry=AT_ONCE), failing(*[OSError("away")] * 9)

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.step("b", lambda: 1, compensate=lambda value: broken())
        shop.do(ctx, "c")
        raise ValueError

    world.run(body)
    errors = world.undo(body)
    assert list(errors) == ["b"] and errors["b"]["type"] == "OSError"
    assert undone(shop) == ["-c", "-a"]
    assert (world.entries["b%undo"].status, world.entries["b%undo"].attempts) == (EntryStatus.FAILED, 3)


@pytest.mark.behaviour("FLOW-06e")
def test_it_is_retried_with_back_off_and_holds_nothing_meanwhile(shop: Shop) -> None:
    world = World()
    flaky = failing(OSError("away"))

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.step("b", lambda: 1, compensate=lambda value: flaky(), retry=Retry(initial=30, jitter=0))
        raise ValueError

    world.run(body)
    before = world.now
    assert world.undo(body) == {}
    assert (world.now - before).total_seconds() == 30
    assert undone(shop) == ["-a"]


@pytest.mark.behaviour("FLOW-06d")
@pytest.mark.parametrize("commit", range(1, 12))
def test_a_crash_at_any_commit_repeats_no_recorded_compensation(shop: Shop, commit: int) -> None:
    world = World()

    def body(ctx: Context) -> None:
        for name in "abcd":
            shop.do(ctx, name)
        raise ValueError

    world.run(body)
    commits = len(world.commits)
    world.crash_after = {commits + commit}
    world.undo(body)
    assert undone(shop) == ["-d", "-c", "-b", "-a"]


def test_what_waits_and_what_was_never_reached_is_left_alone(shop: Shop) -> None:
    world = World()

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.wait_for_event("never")
        shop.do(ctx, "b")

    assert isinstance(world.attempt(body), Suspended)
    world.undo(body)
    assert shop.log == ["a", "-a"]


@pytest.mark.behaviour("FLOW-06f")
def test_a_checkpoint_is_a_point_of_no_return(shop: Shop) -> None:
    world = World()

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.rollback_checkpoint("sold")
        shop.do(ctx, "b")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert undone(shop) == ["-b"]


@pytest.mark.behaviour("FLOW-06h")
def test_branches_are_undone_in_the_order_in_which_their_steps_were_done(shop: Shop) -> None:
    world = World()

    def branch(name: str) -> Any:
        def body(ctx: Context) -> None:
            shop.do(ctx, f"{name}1")
            ctx.sleep("rest", 1)
            shop.do(ctx, f"{name}2")

        return body

    def body(ctx: Context) -> None:
        ctx.join("both", {"a": branch("a"), "b": branch("b")})
        shop.do(ctx, "last")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert [f"-{name}" for name in reversed([n for n in shop.log if not n.startswith("-")])] == undone(shop)
    assert len(undone(shop)) == 5


def test_a_join_under_way_is_undone_as_far_as_it_came(shop: Shop) -> None:
    world = World()

    def waiting(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.join("both", {"waiting": waiting, "other": lambda ctx: shop.do(ctx, "b")})

    assert isinstance(world.attempt(body), Suspended)
    world.undo(body)
    assert sorted(undone(shop)) == ["-a", "-b"]


def test_a_run_that_fails_after_a_race_undoes_the_winner_and_the_losers_once(shop: Shop) -> None:
    world = World()

    def loser(ctx: Context) -> None:
        shop.do(ctx, "lost")
        ctx.sleep("long", 600)

    def body(ctx: Context) -> Any:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: shop.do(ctx, "won")})
        ctx.sleep("a while", 10)
        raise ValueError

    world.run(body)
    world.undo(body)
    assert sorted(undone(shop)) == ["-lost", "-won"]


def test_a_loser_s_compensation_waits_for_its_next_attempt_as_any_other(shop: Shop) -> None:
    world, flaky = World(), failing(OSError("away"))

    def loser(ctx: Context) -> None:
        ctx.step("lost", lambda: 1, compensate=lambda value: flaky(), retry=Retry(initial=30, jitter=0))
        ctx.sleep("long", 600)

    def body(ctx: Context) -> Any:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: 1})
        raise ValueError

    world.run(body)
    for _ in range(3):
        outcome = world.attempt(lambda ctx: world._undo(body), settles=False)
        assert isinstance(outcome, Suspended) and outcome.waiting_on == "retry:any/loser/lost%undo"
        assert world.entries["any/loser/lost%undo"].status == EntryStatus.RETRYING


AROUND: dict[str, Callable[[Context, Callable[[Context], Any]], Any]] = {
    "nothing": lambda ctx, body: body(ctx),
    "turn": lambda ctx, body: ctx.loop("at", lambda ctx, n: body(ctx) and Break(n) if n else Continue(1), 0),
    "loop": lambda ctx, body: ctx.loop("at", lambda ctx, n: Break(n) if n else body(ctx) and Continue(1), 0, history=0),
    "block": lambda ctx, body: ctx.try_block("at", body),
    "branch": lambda ctx, body: ctx.join("at", {"a": body, "b": lambda ctx: 1}),
    "winner": lambda ctx, body: ctx.race("at", {"a": body, "b": lambda ctx: ctx.wait_for_event("never")}),
}


@pytest.mark.behaviour("FLOW-02d", "FLOW-06l")
@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("how", ["crash", "pause"])
def test_a_loser_is_undone_whatever_scope_its_race_lay_in_and_whatever_interrupts_the_run_behind_it(
    shop: Shop, around: str, how: str
) -> None:
    """The process that saw it lose is gone: that it has to be undone only the journal says."""
    world = World()

    def loser(ctx: Context) -> None:
        shop.do(ctx, "lost")
        ctx.sleep("long", 600)

    def racing(ctx: Context) -> Any:
        return ctx.race("any", {"loser": loser, "winner": lambda ctx: shop.do(ctx, "won")})[0]

    def later() -> None:
        {"crash": world.crash_after, "pause": world.pause_after}[how].add(len(world.commits) + 1)

    def body(ctx: Context) -> None:
        AROUND[around](ctx, racing)
        ctx.step("later", later)
        ctx.step("last", lambda: shop.log.append("last"))

    world.value(body)
    assert world.attempts == 2
    assert shop.log == ["lost", "won", "last", "-lost"]


def test_a_loser_whose_compensation_the_code_does_not_come_to_any_more_blocks_the_run(shop: Shop) -> None:
    world = World()
    steps = [shop.do]

    def loser(ctx: Context) -> None:
        for do in steps:
            do(ctx, "lost")
        ctx.sleep("long", 600)

    def body(ctx: Context) -> None:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: 1})
        ctx.step("later", steps.clear)

    outcome = world.attempt(body)
    assert isinstance(outcome, Blocked) and "any/loser/lost" in outcome.text
    steps.append(shop.do)
    world.value(lambda ctx: ctx.race("any", {"loser": loser, "winner": lambda ctx: 1}))
    assert shop.log == ["lost", "-lost"]


def test_a_run_without_a_race_is_not_searched_for_losers(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    under = MemoryJournal.under
    monkeypatch.setattr(MemoryJournal, "under", lambda self, scope: looked.append(scope) or under(self, scope))
    World().value(lambda ctx: [shop.do(ctx, "a"), ctx.sleep("nap", 5), shop.do(ctx, "b")])
    assert "" not in looked


@pytest.mark.behaviour("FLOW-06h")
def test_turns_of_a_loop_are_undone_although_they_are_over(shop: Shop) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        shop.do(ctx, f"t{n}", key=n)
        ctx.step("plain", lambda: n)
        if n == 3:
            raise ValueError
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0, history=1)

    world.run(body)
    world.undo(body)
    assert undone(shop) == ["-t3", "-t2", "-t1", "-t0"]


def test_a_loop_that_ended_is_undone_too(shop: Shop) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        shop.do(ctx, f"t{n}", key=n)
        return Break() if n == 2 else Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0)
        raise ValueError

    world.run(body)
    world.undo(body)
    assert undone(shop) == ["-t2", "-t1", "-t0"]


@pytest.mark.behaviour("FLOW-06h")
def test_blocks_are_undone_and_nested_scopes_within(shop: Shop) -> None:
    world = World()

    def block(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.join("deep", {"x": lambda ctx: shop.do(ctx, "b")})
        raise KeyError

    def body(ctx: Context) -> None:
        assert not ctx.try_block("attempt", block).ok
        shop.do(ctx, "c")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert undone(shop) == ["-c", "-b", "-a"]


def test_code_that_does_not_come_to_it_any_more_blocks_and_loses_nothing(shop: Shop) -> None:
    world = World()

    def old(ctx: Context) -> None:
        shop.do(ctx, "a")
        raise ValueError

    world.run(old)
    outcome = world.attempt(lambda ctx: world._undo(lambda ctx: None))
    assert isinstance(outcome, Blocked) and "'a' has to be undone" in outcome.text
    assert world.undo(old) == {} and undone(shop) == ["-a"]


def test_a_cancelled_run_is_undone_although_its_lease_says_so(shop: Shop) -> None:
    world = World()

    def body(ctx: Context) -> None:
        shop.do(ctx, "a")
        ctx.wait_for_event("never")

    world.attempt(body)
    world.lease.cancel_requested = True
    world.undo(body)
    assert undone(shop) == ["-a"]


@pytest.mark.behaviour("FLOW-06g")
@pytest.mark.parametrize("last", [2, None])
def test_undoing_changes_nothing_of_a_loop_s_progress(shop: Shop, last: int | None) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        shop.do(ctx, "part")
        return Break() if n == last else Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0, history=0)
        ctx.step("next", int)

    world.crash_after = {3}
    with pytest.raises(Crash):
        world.attempt(body)
    # The third turn is journaled, and that the loop has come past it is not: a replay comes past it.
    before = {path: (entry.status, entry.value) for path, entry in world.entries.items()}
    world.undo(body)
    assert undone(shop) == ["-part"] * 3
    after = {path: (entry.status, entry.value) for path, entry in world.entries.items() if entry.kind != Kind.UNDO}
    assert after == before


def test_a_turn_that_raised_is_come_past_where_the_code_has_caught_that(shop: Shop) -> None:
    """A loop that an error has left stays open in the journal, and there is more behind it."""
    world = World(step_retry=AT_ONCE)

    def turn(ctx: Context, n: int) -> Any:
        shop.do(ctx, f"t{n}")
        if n == 1:
            raise KeyError("two")
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        try:
            ctx.loop("rows", turn, 0)
        except KeyError:
            shop.do(ctx, "instead")
        raise ValueError

    world.run(body)
    assert world.undo(body) == {}
    assert undone(shop) == ["-instead", "-t1", "-t0"]


@pytest.mark.behaviour("FLOW-06a", "FLOW-06l")
@pytest.mark.parametrize("pauses", [False, True])
def test_what_a_loser_did_is_undone_in_its_place_among_all_that_is_due(shop: Shop, pauses: bool) -> None:
    world = World(step_retry=AT_ONCE)

    def loser(ctx: Context) -> None:
        shop.do(ctx, "offer on reserve")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        shop.do(ctx, "reserve")
        ctx.race("any", {"loser": loser, "winner": lambda ctx: 1})
        if pauses:
            ctx.sleep("nap", 1)
        shop.do(ctx, "after")
        raise ValueError

    world.run(body)
    world.undo(body)
    after = ["after", "-after", "-offer on reserve"] if not pauses else ["-offer on reserve", "after", "-after"]
    assert shop.log == ["reserve", "offer on reserve", *after, "-reserve"]


def test_a_step_that_has_lost_its_compensation_blocks_and_loses_nothing(shop: Shop) -> None:
    world = World(step_retry=AT_ONCE)

    def old(ctx: Context) -> None:
        shop.do(ctx, "a")
        raise ValueError

    def new(ctx: Context) -> None:
        ctx.step("a", lambda: 1)
        raise ValueError

    world.run(old)
    outcome = world.attempt(lambda ctx: world._undo(new))
    assert isinstance(outcome, Blocked) and "the code gives it no compensation any more" in outcome.text
    assert world.undo(old) == {} and undone(shop) == ["-a"]


def test_a_step_that_the_code_says_is_removed_has_to_be_undone_all_the_same(shop: Shop) -> None:
    world = World(step_retry=AT_ONCE)

    def old(ctx: Context) -> None:
        shop.do(ctx, "a")
        raise ValueError

    world.run(old)
    outcome = world.attempt(lambda ctx: world._undo(lambda ctx: ctx.removed("a", kind="step")))
    assert isinstance(outcome, Blocked) and "'a' has to be undone" in outcome.text


# --- resumed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("redone", ["not at all", "in vain", "again"])
def test_what_could_not_be_undone_is_come_to_although_what_was_before_it_is_to_be_done_again(
    shop: Shop, redone: str
) -> None:
    """The run is resumed and cancelled again: the replay comes past the undone step with what that had been."""
    world, broken = World(step_retry=Retry(max_attempts=2, initial=60)), failing(*[OSError("away")] * 2)
    work = failing(None, *[OSError("not now")] * (redone == "in vain"))

    def body(ctx: Context) -> None:
        ctx.step("a", lambda: f"a{work()}", compensate=shop.undo)
        ctx.step("b", lambda: 1, compensate=lambda value: [broken(), shop.undo("b")])
        ctx.wait_for_event("never")

    world.attempt(body)
    world.lease.cancel_requested = True
    assert list(world.undo(body)) == ["b"] and undone(shop) == ["-a1"]
    world.resume()
    if redone != "not at all":
        assert isinstance(world.attempt(body), Suspended)
    world.lease.cancel_requested = True
    assert world.undo(body) == {}
    assert undone(shop) == ["-a1", "-b", *["-a2"] * (redone == "again")]


def test_what_stands_in_a_branch_is_come_to_where_that_loses_before_it_has_done_the_rest_again(shop: Shop) -> None:
    world = World()

    def loser(ctx: Context) -> None:
        shop.do(ctx, "around")
        ctx.race("in", {"sold": sold, "never": lambda ctx: ctx.wait_for_event("never")})

    def sold(ctx: Context) -> None:
        shop.do(ctx, "inside")
        ctx.rollback_checkpoint("mark")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> Any:
        return ctx.race("out", {"winner": lambda ctx: ctx.wait_for_event("go").name, "loser": loser})

    assert isinstance(world.attempt(body), Suspended)
    world.lease.cancel_requested = True
    world.undo(body)
    assert undone(shop) == ["-around"]
    world.resume()
    world.send("go")
    assert world.value(body) == ("winner", "go")
    assert undone(shop) == ["-around", "-inside"]

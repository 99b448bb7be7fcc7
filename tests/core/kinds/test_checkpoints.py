"""Points of no return: what stands from then on, and that turns whose steps stand leave the journal like others."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.forking import cut
from django_durable.core.journal.outcomes import Completed, Failed, Suspended
from django_durable.core.kinds.loops import Break, Continue

from ..driving import AT_ONCE, RUN_ID, World


class Ledger:
    """``undone`` are the names of what was undone, in order."""

    def __init__(self) -> None:
        self.undone: list[str] = []

    def do(self, ctx: Context, name: str) -> str:
        return ctx.step(name, lambda: name, compensate=self.undone.append)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def turns(world: World, loop: str = "rows") -> list[str]:
    """The turns of the loop that the journal has something of."""
    places = {path[len(loop) + 1 :].partition("]")[0] for path in world.entries if path.startswith(f"{loop}[")}
    return sorted(places, key=int)


@pytest.mark.behaviour("FLOW-06f", "FLOW-06k")
@pytest.mark.parametrize("crashes", [set(), {3, 10, 17, 31}])
def test_turns_before_a_checkpoint_leave_the_journal_and_what_they_did_stands(
    ledger: Ledger, crashes: set[int]
) -> None:
    world = World(step_retry=AT_ONCE, crash_after=crashes)
    sizes: list[int] = []

    def turn(ctx: Context, n: int) -> Any:
        ledger.do(ctx, f"before {n}")
        if n % 4 == 3:
            ctx.rollback_checkpoint("sold")
        ledger.do(ctx, f"after {n}")
        sizes.append(world.flow.journal.size)
        if n == 29:
            raise ValueError
        return Continue(n + 1)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ctx.loop("rows", turn, 0, history=2)

    assert isinstance(world.run(body), Failed)
    # Those since the last mark may be undone (4), those before it are pruned as others are (2), and this one.
    assert max(sizes) <= 2 + 7 * 4
    assert world.undo(body) == {}
    expected = [f"{part} {n}" for n in range(29, 27, -1) for part in ("after", "before")]
    assert ledger.undone == [*expected, "after 27"]


def test_a_checkpoint_after_the_loop_empties_it(ledger: Ledger) -> None:
    world = World()
    seen: list[list[str]] = []

    def inner(ctx: Context, n: int) -> Any:
        ledger.do(ctx, "inner")
        return Break() if n == 2 else Continue(n + 1)

    def turn(ctx: Context, n: int) -> Any:
        ctx.loop("deep", inner, 0)
        return Break() if n == 2 else Continue(n + 1)

    def body(ctx: Context) -> None:
        ctx.loop("rows", turn, 0)
        seen.append(turns(world))
        ctx.rollback_checkpoint("sold")
        seen.append(turns(world))
        raise ValueError

    assert isinstance(world.run(body), Failed)
    world.undo(body)
    assert (seen[:2], ledger.undone) == ([["0", "1", "2"], []], [])


@pytest.mark.parametrize("scope", ["block", "join", "race"])
def test_a_checkpoint_in_a_scope_that_is_over_holds(ledger: Ledger, scope: str) -> None:
    world = World()

    def mark(ctx: Context) -> None:
        ctx.rollback_checkpoint("sold")

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        match scope:
            case "block":
                ctx.try_block("at", mark)
            case "join":
                ctx.join("at", {"a": mark})
            case _:
                ctx.race("at", {"a": mark})
        ledger.do(ctx, "last")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert ledger.undone == ["last"]


def test_what_a_loser_did_is_undone_although_a_checkpoint_came_after(ledger: Ledger) -> None:
    world = World()

    def loser(ctx: Context) -> None:
        ledger.do(ctx, "lost")
        ctx.wait_for_event("never")

    def body(ctx: Context) -> None:
        ctx.race("any", {"loser": loser, "winner": lambda ctx: ledger.do(ctx, "won")})
        ctx.rollback_checkpoint("sold")
        raise ValueError

    world.run(body)
    world.undo(body)
    assert ledger.undone == ["lost"]


def test_a_fork_from_before_a_checkpoint_is_not_bound_by_it(ledger: Ledger) -> None:
    world = World()

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ledger.do(ctx, "second")
        ctx.rollback_checkpoint("sold")
        ledger.do(ctx, "third")

    world.run(body)
    before = cut(RUN_ID, world.entries.values(), "second")
    assert {entry.path: entry.undo for entry in before} == {"first": True}
    after = cut(RUN_ID, world.entries.values(), "third")
    assert {entry.path: entry.undo for entry in after} == {"first": False, "second": False, "sold": False}


def test_a_fork_from_before_a_checkpoint_is_not_bound_by_it_although_its_turn_has_left_the_journal(
    ledger: Ledger,
) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        if n == 0:
            ctx.rollback_checkpoint("sold")
        ctx.step("look", lambda: n)
        return Break() if n == 3 else Continue(n + 1)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ledger.do(ctx, "second")
        ctx.loop("rows", turn, 0, history=0)

    world.run(body)
    assert [path for path in world.entries if path.startswith("rows[")] == ["rows[0]/sold"]
    before = cut(RUN_ID, world.entries.values(), "second")
    assert {entry.path: entry.undo for entry in before} == {"first": True}


# --- in the branches of a race ---------------------------------------------------------------


def _waiting(ctx: Context) -> None:
    ctx.wait_for_event("never")


@pytest.mark.behaviour("FLOW-06l")
@pytest.mark.parametrize("scope", ["plain", "turns"])
def test_a_checkpoint_in_a_branch_that_loses_holds_for_nothing(ledger: Ledger, scope: str) -> None:
    world = World()

    def inner(ctx: Context, n: int = 0) -> Any:
        ledger.do(ctx, f"inner {n}")
        ctx.rollback_checkpoint("sold")
        return Break() if n == 2 else Continue(n + 1)

    def loser(ctx: Context) -> None:
        if scope == "turns":
            ctx.loop("rows", inner, 0, history=0)
        else:
            inner(ctx)
        _waiting(ctx)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "outer")
        ctx.race("any", {"loser": loser, "winner": lambda ctx: ctx.step("won", int)})
        raise ValueError

    assert isinstance(world.run(body), Failed)
    assert world.undo(body) == {}
    inners = ["inner 2", "inner 1", "inner 0"] if scope == "turns" else ["inner 0"]
    assert ledger.undone == [*inners, "outer"]


@pytest.mark.behaviour("FLOW-06m")
def test_a_checkpoint_in_a_branch_that_wins_holds_once_no_race_around_it_is_open(ledger: Ledger) -> None:
    world = World()

    def inner(ctx: Context) -> None:
        ledger.do(ctx, "inner")
        ctx.rollback_checkpoint("sold")
        ledger.do(ctx, "after")

    def outer(ctx: Context) -> None:
        ctx.race("in", {"inner": inner, "never": _waiting})
        owed.append([path for path, entry in world.entries.items() if entry.undo])

    owed: list[list[str]] = []

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ctx.race("any", {"outer": outer, "never": _waiting})
        owed.append([path for path, entry in world.entries.items() if entry.undo])
        raise ValueError

    world.run(body)
    world.undo(body)
    assert owed[:2] == [["first", "any/outer/in/inner/inner", "any/outer/in/inner/after"], ["any/outer/in/inner/after"]]
    assert ledger.undone == ["after"]


def test_where_the_run_ends_while_the_race_is_open_the_branch_s_own_steps_stand(ledger: Ledger) -> None:
    world = World()

    def marking(ctx: Context) -> None:
        ledger.do(ctx, "inner")
        ctx.rollback_checkpoint("sold")
        ledger.do(ctx, "after")
        _waiting(ctx)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "outer")
        ctx.race("any", {"marking": marking, "never": _waiting})

    assert isinstance(world.run(body), Suspended)
    world.undo(body)
    assert ledger.undone == ["after", "outer"]


def test_a_loop_in_a_branch_keeps_one_mark_of_those_that_say_the_same(ledger: Ledger) -> None:
    world = World()

    def turn(ctx: Context, n: int) -> Any:
        ctx.rollback_checkpoint("sold")
        ctx.step("look", lambda: n)
        return Break() if n == 9 else Continue(n + 1)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ctx.race("any", {"a": lambda ctx: ctx.loop("rows", turn, 0, history=0)})

    world.run(body)
    assert [path for path in world.entries if "sold" in path] == ["any/a/rows[0]/sold"]
    assert not world.entries["first"].undo


def test_a_fork_into_a_branch_that_won_is_not_bound_by_its_checkpoint_yet(ledger: Ledger) -> None:
    world = World()

    def marking(ctx: Context) -> None:
        ctx.rollback_checkpoint("sold")
        ctx.step("last", int)

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ctx.race("any", {"marking": marking, "never": _waiting})

    world.run(body)
    assert not world.entries["first"].undo
    before = {entry.path: entry.undo for entry in cut(RUN_ID, world.entries.values(), "any/marking/last")}
    assert before == {"first": True, "any": False, "any/marking/sold": False}


def test_a_race_of_the_same_name_with_a_key_is_another_race(ledger: Ledger) -> None:
    world = World()

    def marking(ctx: Context) -> None:
        ledger.do(ctx, "second")
        ctx.rollback_checkpoint("sold")

    def body(ctx: Context) -> None:
        ctx.race("any", {"a": lambda ctx: ledger.do(ctx, "first")})
        ctx.race("any", {"b": marking}, key=2)

    assert isinstance(world.run(body), Completed)
    world.undo(body)
    assert ledger.undone == []


def test_what_a_loser_in_the_branch_had_sold_the_next_checkpoint_says_itself(ledger: Ledger) -> None:
    world = World()

    def marking(ctx: Context) -> None:
        ctx.rollback_checkpoint("lost")
        _waiting(ctx)

    def branch(ctx: Context) -> None:
        ctx.race("in", {"marking": marking, "won": lambda ctx: ctx.step("win", int)})
        ctx.rollback_checkpoint("sold")

    def body(ctx: Context) -> None:
        ledger.do(ctx, "first")
        ctx.race("out", {"branch": branch, "never": _waiting})
        raise ValueError

    world.run(body)
    world.undo(body)
    assert ledger.undone == []

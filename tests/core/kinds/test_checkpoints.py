"""Points of no return: what stands from then on, and that turns whose steps stand leave the journal like others."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.forking import cut
from django_durable.core.journal.outcomes import Failed
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

"""Scopes side by side with keyed calls of the same name, and branches whose names have changed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import Entry, MemoryJournal
from django_durable.core.journal.outcomes import Blocked, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds.loops import Break, Continue
from django_durable.exceptions import InvalidName, JoinError, RaceError, StepNameReused

from ..driving import AT_ONCE, Pack, World, end


def loop(ctx: Context) -> Any:
    def turn(ctx: Context, n: int) -> Any:
        return Break(n) if ctx.step("x", lambda: n) == 3 else Continue(n + 1)

    return ctx.loop("rows", turn, 0, max_iterations=9)


def items(ctx: Context) -> Any:
    return ctx.map("rows", lambda n: n, range(4))


def keyed_step(ctx: Context) -> Any:
    return ctx.step("rows", lambda: "keyed", key=3)


def keyed_block(ctx: Context) -> Any:
    return ctx.try_block("rows", lambda ctx: ctx.step("x", lambda: "keyed"), key=3)


def children(ctx: Context) -> Any:
    return ctx.map("rows", Pack(), range(4))


def keyed_child(ctx: Context) -> Any:
    return ctx.run_workflow("rows", Pack(key=3))


def keyed_start(ctx: Context) -> Any:
    return ctx.start_workflow("rows", Pack(key=3))


@pytest.mark.parametrize("indexed", [loop, items, children])
@pytest.mark.parametrize("keyed", [keyed_step, keyed_block, keyed_child, keyed_start])
@pytest.mark.parametrize("keyed_first", [True, False])
def test_what_makes_paths_with_an_index_shares_its_name_with_no_keyed_call(
    indexed: Any, keyed: Any, keyed_first: bool
) -> None:
    """``rows[3]`` would be the item or turn 3, and the call with the key 3: one would be given the other's value."""
    calls = [keyed, indexed] if keyed_first else [indexed, keyed]
    world = World(step_retry=AT_ONCE)
    while isinstance(outcome := world.run(lambda ctx: [call(ctx) for call in calls]), Suspended):
        for path in world.children:
            end(world, path, "succeeded", path)
    assert isinstance(outcome, Failed)
    assert isinstance(world.error, StepNameReused)


def test_keys_and_the_plain_name_of_other_calls_go_together() -> None:
    def body(ctx: Context) -> Any:
        ctx.step("rows", lambda: 0)
        ctx.step("rows", lambda: 1, key=3)
        ctx.loop("turns", lambda ctx, n: Break(), key=1)
        ctx.loop("turns", lambda ctx, n: Break(), key=2)
        return ctx.step("rows", lambda: 2, key="a[3]")

    assert World().value(body) == 2


def test_a_nested_scope_has_keys_of_its_own() -> None:
    def turn(ctx: Context, n: int) -> Any:
        ctx.step("rows", lambda: n, key=3)
        return Break(n)

    assert World().value(lambda ctx: ctx.loop("rows", turn, 5)) == 5


@pytest.mark.parametrize("call", ["step", "map", "loop"])
def test_no_call_makes_a_path_that_a_column_cannot_hold(call: str) -> None:
    """``%undo``, an index, the mark of a turn: they come behind a name that was itself short enough."""

    def deep(ctx: Context, left: int) -> Any:
        if left:
            return ctx.join("j" * 100, {"b" * 20: lambda ctx: deep(ctx, left - 1)})
        name = "n" * (500 - len(ctx._flow.scope))
        match call:
            case "step":
                ctx.step(name, lambda: 1, compensate=lambda value: None)
            case "map":
                ctx.map(name, lambda n: n, [1])
            case _:
                ctx.loop(name, lambda ctx, n: Break())

    world = World(step_retry=AT_ONCE)
    assert isinstance(world.run(lambda ctx: deep(ctx, 3)), Failed)
    assert isinstance(world.error, InvalidName)
    assert max(map(len, world.entries)) <= 500


# --- branches by other names -----------------------------------------------------------------


def done(ctx: Context) -> int:
    return ctx.step("do", lambda: 1)


def waiting(ctx: Context) -> Any:
    return ctx.wait_for_event("word")


def failing(ctx: Context) -> Any:
    raise ValueError("no")


@pytest.mark.parametrize("call", ["join", "race"])
@pytest.mark.parametrize("b", [waiting, done, failing], ids=["under way", "succeeded", "failed"])
def test_a_replay_with_other_branches_is_a_divergence(call: str, b: Any) -> None:
    a = waiting if b is waiting else failing if call == "race" or b is failing else done
    world = World(step_retry=AT_ONCE)

    def body(*names: str) -> Any:
        def function(ctx: Context) -> Any:
            with suppress(JoinError, RaceError):
                getattr(ctx, call)("both", dict(zip(names, (a, b), strict=True)))
            ctx.wait_for_event("more")

        return function

    world.attempt(body("a", "b"))
    journaled = dict(world.entries)
    outcome = world.attempt(body("a", "c"))
    assert isinstance(outcome, Blocked), outcome
    assert "'both'" in outcome.text and "'b'" in outcome.text and "'c'" in outcome.text
    assert world.entries == journaled
    assert not isinstance(world.attempt(body("b", "a")), Blocked), "their order is of no matter"


# --- the journal by scopes -------------------------------------------------------------------


def entry(path: str) -> Entry:
    return Entry(path, Kind.STEP, EntryStatus.SUCCEEDED)


PATHS = ["a", "a/b", "a[1]/b", "a[1]/c[2]/d", "a[10]/b", "ab", "ab/c", "a[1]"]


def test_entries_are_found_by_their_scope_whenever_they_came() -> None:
    journal = MemoryJournal({path: entry(path) for path in PATHS[:4]})

    def under(scope: str) -> list[str]:
        return [found.path for found in journal.under(scope)]

    assert under("a[1]/") == ["a[1]/b", "a[1]/c[2]/d"]
    for path in PATHS[4:]:
        journal.add(entry(path))
    for scope in ("", "a/", "a[", "a[1]/", "a[1]/c[", "ab/", "b/"):
        assert sorted(under(scope)) == sorted(path for path in PATHS if path.startswith(scope))
    journal.forget(["a[1]/b", "a[1]/c[2]/d", "never"])
    assert under("a[1]/") == [] and sorted(under("a[")) == ["a[10]/b", "a[1]"]
    journal.add(entry("a[1]/b"))
    assert under("a[1]/") == ["a[1]/b"]

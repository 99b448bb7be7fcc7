"""Maps of children: how many are alive at a time, when their parent comes back, and what is journaled of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from django_durable.core.context import Context
from django_durable.core.flow.branches import LOOK_AGAIN
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.digests import Digests
from django_durable.core.journal.fan_out import (
    LOW_WATER_MAX,
    Progress,
    low_water_mark,
    of_another_run,
    started_anew,
    with_only,
)
from django_durable.core.journal.journal import Entry, NewRun
from django_durable.core.journal.outcomes import Blocked, Completed, Failed, Suspended
from django_durable.core.journal.states import TERMINAL, EntryStatus
from django_durable.core.payloads.briefly import TOGETHER_MAX
from django_durable.core.payloads.codec import decode
from django_durable.exceptions import InvalidInput, JoinError
from tests.core.driving import Line, Pack, World, end


class Fan:
    """A run that maps ``count`` children, and what the database does with it: ends children, and wakes it in time."""

    def __init__(self, count: int, max_parallel: int | None) -> None:
        self.world, self.pack = World(), Pack()
        self.count, self.max_parallel = count, max_parallel

    def body(self, ctx: Context) -> Any:
        return ctx.map("each", self.pack, range(self.count), max_parallel=self.max_parallel)

    @property
    def alive(self) -> list[int]:
        children = self.world.children.items()
        return sorted(int(path[5:-1]) for path, child in children if child.status not in TERMINAL)

    @property
    def entry(self) -> Entry:
        return self.world.entries["each"]

    @property
    def is_awake(self) -> bool:
        """The predicate of ``store.sql.waits``."""
        assert self.entry.status == EntryStatus.WAITING
        return len(self.alive) <= int(self.entry.awaits or 0)

    def end(self, *indexes: int) -> None:
        for index in indexes:
            end(self.world, f"each[{index}]", "succeeded", index * 10)

    def attempt(self) -> Any:
        return self.world.run(self.body)


@pytest.mark.parametrize(
    ("max_parallel", "left", "count", "mark"),
    [
        (None, 5, 10, 0),
        (1, 5, 10, 0),
        (2, 5, 10, 1),
        (8, 5, 100, 7),
        (8, 5, 10_000, 4),
        (100, 5, 1_000, 95),
        (100, 5, 10_000, 50),
        (100, 0, 10_000, 0),
        (1_000, 5, 10_000, LOW_WATER_MAX),
    ],
)
def test_a_parent_comes_back_for_one_place_of_few_and_for_half_of_the_places_of_many(
    max_parallel: int | None, left: int, count: int, mark: int
) -> None:
    assert low_water_mark(max_parallel, left, count) == mark


def test_a_slow_child_does_not_keep_the_others_waiting() -> None:
    fan = Fan(20, 4)
    fan.attempt()
    assert fan.alive == [0, 1, 2, 3]
    while fan.alive != [0]:
        fan.end(fan.alive[1])
        if fan.is_awake:
            assert fan.attempt() == Suspended("map:each")
        assert len(fan.alive) <= 4
    assert len(fan.world.children) == 20
    fan.end(0)
    assert fan.is_awake
    assert fan.world.value(fan.body) == [index * 10 for index in range(20)]


def test_results_are_journaled_as_they_are_noted_and_each_once() -> None:
    fan = Fan(6, 2)
    fan.attempt()
    fan.end(1)
    fan.attempt()
    assert fan.world.entries["each[1]"].value == "10"
    assert "each[0]" not in fan.world.entries
    fan.end(0, 2)
    fan.attempt()
    assert sorted(fan.world.commits[-1].entries) == ["each", "each[0]", "each[2]"]


def test_a_parent_that_is_woken_for_something_else_writes_nothing() -> None:
    fan = Fan(6, 2)
    fan.attempt()
    assert fan.attempt() == Suspended("map:each")
    last = fan.world.commits[-1]
    assert (last.entries, list(last.children)) == ({}, [])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_ends_first_and_wherever_the_parent_dies_nothing_is_started_twice_or_lost(seed: int) -> None:
    chance = random.Random(seed)
    fan = Fan(chance.randrange(1, 14), chance.randrange(1, 6))
    fan.world.crash_after = {number for number in range(1, 40) if chance.random() < 0.3}
    outcome = fan.attempt()
    while isinstance(outcome, Suspended):
        assert len(fan.alive) <= fan.max_parallel  # type: ignore[operator]
        fan.end(chance.choice(fan.alive))
        if fan.is_awake or chance.random() < 0.2:
            outcome = fan.attempt()
    assert isinstance(outcome, Completed)
    assert decode(outcome.output) == [index * 10 for index in range(fan.count)]
    assert len(fan.world.children) == fan.count


def test_the_last_ones_are_waited_for_together() -> None:
    fan = Fan(5, 3)
    fan.attempt()
    assert fan.entry.awaits == "2"
    fan.end(0, 1)
    fan.attempt()
    assert (fan.alive, fan.entry.awaits) == ([2, 3, 4], "")


def test_a_lower_limit_starts_nobody_until_there_is_room() -> None:
    fan = Fan(10, 6)
    fan.attempt()
    fan.end(0)
    fan.max_parallel = 2
    fan.attempt()
    assert (fan.alive, fan.entry.awaits) == ([1, 2, 3, 4, 5], "1")
    fan.end(1, 2, 3, 4)
    fan.attempt()
    assert fan.alive == [5, 6]


def test_a_higher_limit_is_durable_before_the_parent_waits_for_it() -> None:
    """A child that ends meanwhile and knows the lower mark only would leave the parent to its siblings."""
    fan = Fan(10, 2)
    fan.attempt()
    fan.end(0)
    fan.max_parallel = 4
    before = len(fan.world.commits)
    fan.attempt()
    told, suspended = fan.world.commits[before:]
    assert (told.entries["each"].awaits, list(told.children), told.outcome) == ("3", [], None)
    assert [child.parent_path for child in suspended.children] == ["each[2]", "each[3]", "each[4]"]


def test_a_mark_that_does_not_rise_costs_no_commit() -> None:
    fan = Fan(10, 2)
    fan.attempt()
    fan.end(0)
    fan.attempt()
    assert len(fan.world.commits) == 2


def test_failures_come_by_index_after_all_have_ended() -> None:
    fan = Fan(4, 2)
    fan.attempt()
    run_id = end(fan.world, "each[0]", "failed", error={"type": "ValueError", "message": "no"})
    while not isinstance(outcome := fan.attempt(), Failed):
        assert outcome == Suspended("map:each")
        fan.end(fan.alive[-1])
    error = fan.world.error
    assert isinstance(error, JoinError)
    assert {index: one["run"] for index, one in error.errors.items()} == {0: str(run_id)}
    assert len(fan.world.children) == 4


def test_the_errors_of_very_many_children_are_told_in_brief_and_all_of_them() -> None:
    fan = Fan(900, None)
    fan.attempt()
    # A map of theirs failed: each says of what.
    culprits = [f"a map of the child's own[{number}]" for number in range(100)]
    for index in fan.alive:
        told = {"type": "ValueError", "message": "no " * 7000, "culprits": culprits}
        end(fan.world, f"each[{index}]", "failed", error=told)
    assert isinstance(fan.attempt(), Failed)
    assert len(fan.entry.error or "") <= TOGETHER_MAX
    assert max(len(fan.world.entries[f"each[{index}]"].error or "") for index in range(900)) < 2100
    error = fan.world.error
    assert isinstance(error, JoinError) and "(900 of 900 errors are told in brief.)" in str(error)
    last = error.errors[899]
    assert (last["type"], last["message"][:6], last["culprits"]) == ("ValueError", "no no ", ["each[899]"])
    assert last["run"] == str(fan.world.children["each[899]"].run_id)


# --- what it is given ----------------------------------------------------------------------------


class Strict(Pack):
    """Takes numbers only."""

    def new_child(self, parent: Any, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun:
        if not isinstance(args[0], int):
            raise InvalidInput("shop.pack", ["not a number"])
        return super().new_child(parent, path, args, kwargs)


@pytest.mark.parametrize("max_parallel", [None, 2])
def test_where_one_input_is_wrong_no_child_is_started(max_parallel: int | None) -> None:
    world, pack = World(), Strict()
    items = [*range(600), "x"]
    world.attempt(lambda ctx: ctx.map("each", pack, items, max_parallel=max_parallel))
    assert isinstance(world.error, InvalidInput)
    assert world.error.__notes__ == ["Input of item 600 of map 'each'."]
    assert (world.children, world.entries) == ({}, {})
    # Mended code may give it other items.
    assert world.attempt(lambda ctx: ctx.map("each", pack, [1], max_parallel=max_parallel)) == Suspended("map:each")


def test_items_that_differ_start_nobody() -> None:
    world, pack = World(), Pack()
    items = [1, 2, 3]

    def body(ctx: Context) -> Any:
        return ctx.map("each", pack, items, max_parallel=2)

    world.attempt(body)
    end(world, "each[0]", "succeeded", 1)
    items.reverse()
    outcome = world.attempt(body)
    assert isinstance(outcome, Blocked) and "another item 0 than" in outcome.text
    assert len(world.children) == 2
    items.reverse()
    world.attempt(body)
    assert len(world.children) == 3


@pytest.mark.parametrize("digests", [None, Digests(["aa", ""]), Digests("aa", {"@a": ["b"]}, scheme=0)])
@pytest.mark.parametrize("again", [(), (0,)])
def test_runs_that_begin_with_a_part_of_a_map_know_its_items(digests: Any, again: tuple[int, ...]) -> None:
    progress = Progress(2, 2, again, digests)
    assert Progress.of(progress.value) == progress
    assert Progress.of(started_anew(progress.value, [1])) == Progress(2, 2, (*again, 1), digests)
    assert Progress.of(with_only(progress.value, [1])) == Progress(2, 2, (0,), digests)
    assert Progress.of(of_another_run(progress.value)) == Progress(2, 2, again)


# --- beside others -----------------------------------------------------------------------------


def test_a_branch_that_waits_for_children_is_begun_anew_once_enough_of_them_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other branch works on meanwhile; one child ends after the second, one after the third."""
    world, pack, begun, looks = World(), Pack(), [], []

    def fan(ctx: Context) -> Any:
        begun.append(len(looks))
        return ctx.map("fan", pack, range(2))

    def look(line: Line, branches: Sequence[Flow], seconds: float | None) -> Any:
        if [branch.scope for branch in branches] != ["both/beside/"] or seconds is None:
            return await_branch(line, branches, seconds)
        looks.append(seconds)
        if len(looks) > 1:
            end(world, f"both/fan/fan[{len(looks) % 2}]", "succeeded", 1)
        return None

    await_branch = Line._await_branch
    monkeypatch.setattr(Line, "_await_branch", look)
    bodies = {"fan": fan, "beside": lambda ctx: None}
    assert world.value(lambda ctx: ctx.join("both", bodies)) == {"fan": [1, 1], "beside": None}
    assert (begun, looks) == ([0, 3], [LOOK_AGAIN] * 3)

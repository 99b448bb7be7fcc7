"""Children: started in the commit that says so, waited for without holding anything, once for each name."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from django_durable.core.context import Context
from django_durable.core.journal.journal import NewRun
from django_durable.core.journal.outcomes import Completed, Suspended
from django_durable.core.journal.states import EntryStatus
from django_durable.exceptions import ChildFailed, StepNameReused
from tests.core.driving import RUN_ID, Pack, World, end


def test_a_child_is_started_in_the_commit_that_suspends_the_parent() -> None:
    pack = Pack()
    world = World()
    outcome = world.attempt(lambda ctx: ctx.run_workflow("pack", pack, 1, box="small"))
    assert outcome == Suspended("child:pack")
    assert len(world.commits) == 1
    [child] = world.commits[0].children
    assert child is pack.made[0]
    assert (child.parent_id, child.parent_path, child.input) == (RUN_ID, "pack", '[[1],{"box":"small"}]')
    entry = world.entries["pack"]
    assert (entry.kind, entry.status, entry.awaits) == ("child", "waiting", str(child.id))


def test_its_value_comes_back_and_it_is_started_once() -> None:
    pack = Pack()
    world = World()

    def body(ctx: Context) -> Any:
        return ctx.run_workflow("pack", pack)

    world.attempt(body)
    assert world.attempt(body) == Suspended("child:pack")  # woken by something else
    end(world, "pack", "succeeded", (1, 2))
    assert world.value(body) == (1, 2)
    assert world.value(body) == (1, 2)
    assert len(pack.made) == 1


def test_what_a_child_returned_is_journaled() -> None:
    pack = Pack()
    world = World()
    world.attempt(lambda ctx: ctx.run_workflow("pack", pack))
    end(world, "pack", "succeeded", {"n": 1})
    world.attempt(lambda ctx: ctx.run_workflow("pack", pack))
    assert world.entries["pack"].value == '{"n":1}'
    del world.children["pack"]
    assert world.value(lambda ctx: ctx.run_workflow("pack", pack)) == {"n": 1}


def failure(ctx: Context, pack: Pack) -> Any:
    try:
        return ctx.run_workflow("pack", pack)
    except ChildFailed as error:
        return [error.step, error.run_id, error.status, error.error]


@pytest.mark.behaviour("CHILD-01d")
def test_a_child_that_failed() -> None:
    pack = Pack()
    world = World()
    world.attempt(lambda ctx: failure(ctx, pack))
    run_id = end(world, "pack", "failed", error={"type": "ValueError", "message": "no box"})
    expected = ["pack", run_id, "failed", {"type": "ValueError", "message": "no box"}]
    assert world.value(lambda ctx: failure(ctx, pack)) == expected
    assert world.entries["pack"].status == EntryStatus.FAILED
    # Resumed meanwhile and successful: the parent has journaled the failure, and that stands.
    end(world, "pack", "succeeded", 1)
    assert world.value(lambda ctx: failure(ctx, pack)) == expected


def test_a_child_that_was_cancelled() -> None:
    pack = Pack()
    world = World()
    world.attempt(lambda ctx: failure(ctx, pack))
    run_id = end(world, "pack", "cancelled")
    error = {"type": "RunCancelled", "message": "the child was cancelled"}
    assert world.value(lambda ctx: failure(ctx, pack)) == ["pack", run_id, "cancelled", error]
    assert "RunCancelled" in str(ChildFailed("pack", run_id, "cancelled", error))


@pytest.mark.parametrize("status", ["scheduled", "queued", "running", "waiting", "paused", "blocked"])
def test_a_child_that_lives_is_waited_for(status: str) -> None:
    pack = Pack()
    world = World()
    world.attempt(lambda ctx: ctx.run_workflow("pack", pack))
    end(world, "pack", status)
    assert world.attempt(lambda ctx: ctx.run_workflow("pack", pack)) == Suspended("child:pack")


def test_start_and_go_on() -> None:
    pack = Pack()

    def body(ctx: Context) -> UUID:
        return ctx.start_workflow("pack", pack)

    world = World()
    first = world.value(body)
    assert world.value(body) == first == pack.made[0].id
    assert len(pack.made) == 1
    assert world.entries["pack"].status == EntryStatus.SUCCEEDED
    assert [len(write.children) for write in world.commits] == [1, 0, 0]


@pytest.mark.behaviour("CHILD-01a")
def test_a_crash_after_the_start_starts_nothing_twice() -> None:
    pack = Pack()

    def body(ctx: Context) -> list[Any]:
        return [ctx.start_workflow("aside", pack), ctx.run_workflow("inside", pack)]

    world = World()
    world.crash_after = {1, 2}
    world.run(body)
    end(world, "inside", "succeeded", 5)
    assert world.value(body) == [pack.made[0].id, 5]
    assert [run.parent_path for run in pack.made] == ["aside", "inside"]


def test_a_crash_before_the_commit_leaves_no_orphan() -> None:
    pack = Pack()
    world = World()
    world.crash_before = 1
    assert isinstance(world.run(lambda ctx: ctx.run_workflow("pack", pack)), Suspended)
    assert len(pack.made) == 2
    assert world.children["pack"].run_id == pack.made[1].id


@pytest.mark.behaviour("CHILD-01b")
def test_keys_are_the_workflow_s() -> None:
    world = World()
    world.value(lambda ctx: [ctx.start_workflow("pack", Pack(key)) for key in range(3)])
    assert list(world.children) == ["pack[0]", "pack[1]", "pack[2]"]
    world = World()
    world.attempt(lambda ctx: [ctx.start_workflow("pack", Pack("x")) for _ in range(2)])
    assert isinstance(world.error, StepNameReused)
    assert list(world.children) == ["pack[x]"]


def test_arguments_of_any_name_reach_the_child() -> None:
    pack = Pack()
    World().attempt(lambda ctx: ctx.start_workflow("pack", pack, name="n", workflow="w", self=1))
    assert pack.made[0].input == '[[],{"name":"n","workflow":"w","self":1}]'


def test_a_child_that_cannot_be_made_is_not_journaled() -> None:
    class Refused(Pack):
        def new_child(self, *_: Any) -> NewRun:
            raise TypeError("does not fit")

    world = World()
    world.attempt(lambda ctx: ctx.run_workflow("pack", Refused()))
    assert isinstance(world.error, TypeError)
    assert world.entries == {}
    world.attempt(lambda ctx: ctx.start_workflow("pack", Refused()))
    assert world.entries == {}


def test_a_parent_completes_with_its_child_s_value() -> None:
    pack = Pack()
    world = World()
    world.attempt(lambda ctx: ctx.run_workflow("pack", pack))
    end(world, "pack", "succeeded", None)
    assert world.attempt(lambda ctx: ctx.run_workflow("pack", pack)) == Completed("null")

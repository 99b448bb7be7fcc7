"""now, uuid4 and random: what differs each time one asks, the same for every replay."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django_durable.core.context import Context
from django_durable.core.flow.flow import Flow
from django_durable.core.flow.lease import Lease
from django_durable.core.flow.run_info import RunInfo
from django_durable.core.journal.journal import MemoryJournal
from tests.core.driving import NOON, RUN_ID, TOKEN, World


def test_now_is_when_it_was_first_reached() -> None:
    def body(ctx: Context) -> list[Any]:
        first = ctx.now()
        ctx.sleep("nap", 60)
        return [first, ctx.now()]

    world = World()
    assert world.value(body) == [NOON, NOON + timedelta(minutes=1)]
    world.now += timedelta(hours=1)
    assert world.value(body) == [NOON, NOON + timedelta(minutes=1)]


def test_now_rides_with_the_next_write() -> None:
    seen: list[Any] = []

    def body(ctx: Context) -> None:
        ctx.now()
        ctx.now()
        seen.append(len(world.commits))
        ctx.step("pay", int)
        seen.append(list(world.commits[0].entries))

    world = World()
    world.value(body)
    assert seen == [0, ["%now[1]", "%now[2]", "pay"]]


def test_no_name_is_the_path_of_now() -> None:
    world = World()
    world.value(lambda ctx: [ctx.step("%now", int, key=1), ctx.now()])
    assert list(world.entries) == ["%25now[1]", "%now[1]"]


def draw(ctx: Context) -> list[Any]:
    return [ctx.uuid4(), ctx.uuid4(), ctx.random(), ctx.random()]


def test_draws_are_the_same_under_replay_and_cost_nothing() -> None:
    world = World()
    first = world.value(draw)
    assert world.value(draw) == first
    assert world.entries == {}
    assert len(set(map(str, first))) == 4


def test_draws_do_not_depend_on_steps_between_them() -> None:
    def body(ctx: Context) -> list[Any]:
        a, b = ctx.uuid4(), ctx.random()
        ctx.step("pay", int)
        return [a, ctx.uuid4(), b, ctx.random()]

    assert World().value(body) == World().value(draw)


def test_other_runs_draw_other_values() -> None:
    def context(run_id: UUID) -> Context:
        flow = Flow(RunInfo(run_id, "w"), MemoryJournal(), Lease(run_id, TOKEN, float("inf")))
        return Context(flow, lambda decisions: None)

    mine, mine_again, other = context(RUN_ID), context(RUN_ID), context(UUID(int=RUN_ID.int + 1))
    assert mine.uuid4() != other.uuid4()
    assert mine.random() != other.random()
    assert context(RUN_ID).uuid4() == mine_again.uuid4()


def test_what_they_look_like() -> None:
    def body(ctx: Context) -> list[Any]:
        return [[ctx.uuid4() for _ in range(50)], [ctx.random() for _ in range(500)]]

    ids, floats = World().value(body)
    assert all(drawn.version == 4 and drawn.variant == "specified in RFC 4122" for drawn in ids)
    assert len(set(ids)) == 50
    assert all(0 <= drawn < 1 for drawn in floats)
    assert 0.4 < sum(floats) / 500 < 0.6


def test_draws_are_pinned_for_good() -> None:
    """Live runs are replayed by the next version of this package: what it draws may never change."""
    assert [str(drawn) for drawn in World().value(draw)] == [
        "5a03d62c-c67a-41e7-be74-770dc600d6a4",
        "eec4f979-ecf5-462e-9045-65931b3f897a",
        "0.3223828053918405",
        "0.6047101818917728",
    ]

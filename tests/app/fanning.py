"""A fan-out: one parent, many children that each do a little."""

from __future__ import annotations

from django_durable import Context, durable_workflow
from tests.app.faults import wait_at


def double(number: int) -> int:
    return 2 * number


@durable_workflow(name="fanning.part")
def part(ctx: Context, number: int) -> int:
    return ctx.step("double", double, number)


@durable_workflow(name="fanning.whole")
def whole(ctx: Context, count: int) -> list[int]:
    return ctx.map("part", part, range(count))


def double_behind(number: int, gate: str) -> int:
    if gate:
        wait_at(gate)
    return double(number)


@durable_workflow(name="fanning.gated_part")
def gated_part(ctx: Context, place: tuple[int, str]) -> int:
    return ctx.step("double", double_behind, *place)


@durable_workflow(name="fanning.gated_whole")
def gated_whole(ctx: Context, count: int, free: int, gate: str) -> list[int]:
    """Only the first ``free`` children come to their end before the gate is open."""
    return ctx.map("part", gated_part, [(number, "" if number < free else gate) for number in range(count)])

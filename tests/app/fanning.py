"""A fan-out: one parent, many children that each do a little."""

from __future__ import annotations

from django_durable import Context, durable_workflow


def double(number: int) -> int:
    return 2 * number


@durable_workflow(name="fanning.part")
def part(ctx: Context, number: int) -> int:
    return ctx.step("double", double, number)


@durable_workflow(name="fanning.whole")
def whole(ctx: Context, count: int) -> list[int]:
    return ctx.map("part", part, range(count))

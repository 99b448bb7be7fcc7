"""What the random programs have not: a workflow that a schedule starts."""

from __future__ import annotations

from django_durable import Context, Cron, durable_workflow
from tests.soak.plan import TICK


def double(number: int) -> int:
    return number * 2


@durable_workflow(name=TICK, cron=Cron("* * * * * */5"))
def tick(ctx: Context) -> int:
    """Each five seconds."""
    return ctx.step("double", double, 2)

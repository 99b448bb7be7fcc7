"""What a worker of the released version can work on: programs of what it knows, and the last runs of a round."""

from __future__ import annotations

from django_durable import Context, durable_workflow
from tests.app import chaos_plain  # noqa: F401  (it registers its workflows)


def double(number: int) -> int:
    return number * 2


@durable_workflow(name="app.doubling")
def doubling(ctx: Context, number: int) -> int:
    return ctx.step("double", double, number)

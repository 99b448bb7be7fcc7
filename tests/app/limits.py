"""Workflows with limits. Their steps leave traces, as those of `faults`."""

from __future__ import annotations

from django_durable import Context, durable_workflow
from tests.app.faults import traced


def tenant_of(tenant: str, **others: object) -> str:
    return tenant


@durable_workflow(max_concurrency=1, concurrency_key=tenant_of)
def one_a_tenant(ctx: Context, tenant: str, gate: str = "", seconds: float = 0.0) -> str:
    ctx.step("work", traced, 1, gate, seconds)
    return tenant


@durable_workflow(max_concurrency=1)
def nested(ctx: Context, depth: int) -> int:
    """Waits for a child that has the same limit."""
    return 0 if depth == 0 else 1 + ctx.run_workflow("inner", nested, depth - 1)

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


@durable_workflow(rate="2/m", concurrency_key=tenant_of)
def two_a_minute(ctx: Context, tenant: str) -> str:
    return ctx.step("work", str.upper, tenant)


@durable_workflow(rate="3/s")
def three_a_second(ctx: Context) -> None:
    ctx.step("work", traced, 1)


@durable_workflow(debounce=30, concurrency_key=tenant_of, timeout=600)
def settled(ctx: Context, tenant: str, text: str = "") -> str:
    """Works on what was said last, once nothing more is said."""
    return text


@durable_workflow(singleton="skip", concurrency_key=tenant_of)
def one_live(ctx: Context, tenant: str, text: str = "") -> str:
    ctx.wait_for_event("go")
    return text


@durable_workflow(singleton="cancel_running", concurrency_key=tenant_of)
def newest(ctx: Context, tenant: str, text: str = "") -> str:
    ctx.wait_for_event("go")
    return text


def key_that_quotes(card: str) -> str:
    raise KeyError(card)


@durable_workflow(max_concurrency=1, concurrency_key=key_that_quotes)
def refused(ctx: Context, card: str) -> None:
    """Nobody can start it, and who tries is told of its input."""

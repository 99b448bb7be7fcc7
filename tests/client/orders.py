"""An order that may fail, a parent that waits for it, and runs of it in every status."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_durable import Context, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Status
from django_durable.models import Run
from django_durable.testing import run_until_idle

ONCE = Retry(max_attempts=1)
TWICE = Retry(max_attempts=2, initial=0, maximum=0)
calls: list[Any] = []
is_broken: list[bool] = []


def charge() -> str:
    calls.append("charge")
    if is_broken:
        raise OSError("gateway")
    return "charged"


@durable_workflow(name="verbs.order", retry=ONCE, step_retry=TWICE)
def order(ctx: Context, how: str = "wait") -> Any:
    ctx.step("reserve", calls.append, "reserve")
    if how == "fail":
        return ctx.step("charge", charge)
    if how == "raise":
        raise ValueError
    return ctx.wait_for_event("packed").payload if how == "wait" else None


@durable_workflow(name="verbs.parent", retry=ONCE, step_retry=TWICE)
def parent(ctx: Context, how: str) -> Any:
    return ctx.run_workflow("order", order, how)


def in_status(status: Status) -> RunHandle[Any]:
    """A run that stands in ``status``."""
    match status:
        case Status.SCHEDULED:
            return order.using(run_after=3600).enqueue()
        case Status.QUEUED:
            return order.enqueue()
    run = order.enqueue({Status.SUCCEEDED: "well", Status.FAILED: "fail"}.get(status, "wait"))
    run_until_idle()
    columns: dict[str, Any] = {}
    match status:
        case Status.CANCELLED:
            run.cancel()
            run_until_idle()
        case Status.RUNNING:
            expiry = run.run.created_at + timedelta(days=1)
            lease = {"lease_token": uuid7(), "leased_by": uuid7(), "lease_expires_at": expiry}
            columns = {"status": status, "waiting_on": "", **lease}
        case Status.PAUSED:
            columns = {"status": status, "waiting_on": ""}
        case Status.BLOCKED:
            columns = {"status": status, "waiting_on": "", "block_reason": "diverged"}
    if columns:
        Run.objects.filter(pk=run.id).update(**columns)
    assert run.refresh().status == status
    calls.clear()
    return run

"""The life of an order, from the shelf to the receipt, whatever dies on the way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings

from django_durable import Context, Cron, Retry, durable_workflow
from django_durable.exceptions import EventTimeout, StepFailed
from shop.fulfilment.books import write_report
from shop.fulfilment.ending import end_without_goods, mail_receipt
from shop.fulfilment.packing import ask_warehouse, begin_packing, mark_shipped, stop_warehouse
from shop.fulfilment.payment import book_refund, charge_card, refund_charge
from shop.fulfilment.refusal import Refusal
from shop.fulfilment.stock import give_stock_back, reserve_stock
from shop.models import RefusalReason

# Seven are given up after some twenty seconds: whoever watches wants to see the order fail.
GATEWAY = Retry(max_attempts=settings.SHOP_GATEWAY_ATTEMPTS, initial=0.3, factor=2, maximum=10)
# Nobody waits for these, and giving up would leave money or goods where they do not belong.
PATIENT = Retry(max_attempts=25, initial=0.5, factor=2, maximum=300)

CHARGE = "charge card"


@durable_workflow(name="shop.fulfil_order")
def fulfil_order(ctx: Context, order_id: int) -> dict[str, Any]:
    """Reserve, charge, wait, pack, ship, mail. A refused order is an outcome of the run and not its failure.

    A gateway that does not answer is one: the order keeps its goods, and goes on once somebody resumes the run.
    """
    refusal = ctx.step("reserve stock", reserve_stock, order_id)
    if refusal is not None:
        return _refuse(ctx, order_id, refusal)
    ctx.progress(1, 4, "reserved")
    # The key is of this run and this name, so every attempt in every process shows the gateway the same one.
    key = ctx.idempotency_key(CHARGE)
    # Not caught: what a workflow has caught, a resume does not try again. The last request may have been charged and
    # nobody knows it; a resumed run shows the same key, and is told of that charge.
    refusal = ctx.step(CHARGE, charge_card, order_id, key, retry=GATEWAY)
    if refusal is not None:
        return _refuse(ctx, order_id, refusal)
    ctx.progress(2, 4, "paid")
    ctx.sleep("cooling off", timedelta(seconds=settings.SHOP_COOLING_OFF_SECONDS))
    if not ctx.step("begin packing", begin_packing, order_id):
        return _give_up(ctx, order_id, key, Refusal(RefusalReason.CUSTOMER_CANCELLED.value))
    tracking = _have_it_packed(ctx, order_id)
    if tracking is None:
        return _give_up(ctx, order_id, key, Refusal(RefusalReason.NOT_PACKED.value))
    ctx.progress(3, 4, "packed")
    ctx.step("mark shipped", mark_shipped, order_id, tracking, atomic=True)
    ctx.step("mail receipt", mail_receipt, order_id, ctx.idempotency_key("mail receipt"))
    ctx.progress(4, 4, "shipped")
    return {"outcome": "shipped", "tracking": tracking}


@durable_workflow(name="shop.refund")
def refund(ctx: Context, order_id: int, charge_key: str) -> str:
    """Give back what was charged under the key, if anything; returns the amount."""
    amount = ctx.step("refund charge", refund_charge, order_id, charge_key, retry=PATIENT)
    ctx.step("book refund", book_refund, order_id, amount)
    return str(amount)


@durable_workflow(name="shop.close_day", cron=Cron(settings.SHOP_CLOSE_DAY, timezone=settings.TIME_ZONE))
def close_day(ctx: Context) -> dict[str, str]:
    """Write the day's report."""
    today = ctx.now().astimezone(ZoneInfo(settings.TIME_ZONE)).date()
    return ctx.step("write report", write_report, today, atomic=True)


def _have_it_packed(ctx: Context, order_id: int) -> str | None:
    """The tracking number, or None where no parcel will come."""
    try:
        ctx.step("ask the warehouse", ask_warehouse, order_id, retry=GATEWAY)
        packed = ctx.wait_for_event("packed", timeout=timedelta(seconds=settings.SHOP_PACKING_SECONDS))
    except (StepFailed, EventTimeout):
        # The parcel may leave in this very moment, so the goods go back to the shelf only if packing was stopped.
        if ctx.step("stop the warehouse", stop_warehouse, order_id, retry=PATIENT):
            return None
        packed = ctx.wait_for_event("packed after all", event="packed")
    return str(packed.payload["tracking"])


def _refuse(ctx: Context, order_id: int, refusal: Refusal) -> dict[str, Any]:
    ctx.step("give stock back", give_stock_back, order_id)
    ctx.step("end without goods", end_without_goods, order_id, refusal, atomic=True)
    return {"outcome": "refused", "reason": refusal.reason, "detail": refusal.detail}


def _give_up(ctx: Context, order_id: int, key: str, refusal: Refusal) -> dict[str, Any]:
    refunded = ctx.run_workflow("refund", refund, order_id, key)
    return {**_refuse(ctx, order_id, refusal), "refunded": refunded}

import uuid
from datetime import timedelta

from django.db.models import F
from django.utils import timezone

from django_durable import Cron, durable_workflow
from shop.models import Order


def charge_card(order_id):
    Order.objects.filter(pk=order_id).update(charges=F("charges") + 1)
    return f"charge-{order_id}"


def set_status(order_id, status):
    Order.objects.filter(pk=order_id).update(status=status)


async def remind(order_id):
    await Order.objects.filter(pk=order_id).aupdate(reminded_at=timezone.now())


@durable_workflow
def fulfil_order(ctx, order_id: int):
    charge = ctx.step("charge card", charge_card, order_id)
    packed = ctx.wait_for_event("packed", timeout=timedelta(days=2), default=None)
    ctx.step("set status", set_status, order_id, "shipped" if packed else "refused", atomic=True)
    return charge


@durable_workflow
async def remind_customer(ctx, order_id: int):
    await ctx.sleep("a week", timedelta(days=7))
    await ctx.step("remind", remind, order_id)


@durable_workflow
def careless(ctx):
    ctx.step(f"save {uuid.uuid4()}", int)
    ctx.step("end", int)


@durable_workflow(cron=Cron("0 6 * * *", timezone="Europe/Berlin"))
def count_orders(ctx):
    return ctx.step("count", Order.objects.count)

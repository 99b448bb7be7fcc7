"""The last word on an order, and the mail that tells it."""

from __future__ import annotations

from django.core.mail import EmailMessage

from shop.fulfilment.refusal import Refusal
from shop.models import Order, OrderStatus, RefusalReason


def end_without_goods(order_id: int, refusal: Refusal) -> None:
    order = Order.objects.get(pk=order_id)
    cancelled = refusal.reason == RefusalReason.CUSTOMER_CANCELLED
    order.end(OrderStatus.CANCELLED if cancelled else OrderStatus.REFUSED, refusal.reason, refusal.detail)


def mail_receipt(order_id: int, key: str) -> None:
    """A mail can't be taken back or asked for: a crash right here sends it twice, and the Message-ID tells."""
    order = Order.objects.get(pk=order_id)
    lines = [f"{line.quantity:>4} x {line.sku:<12} {line.amount:>10}" for line in order.lines.all()]
    lines += [f"{'shipping':>19} {order.shipping_fee:>10}", f"{'total':>19} {order.total:>10}"]
    body = f"Dear {order.customer},\n\nyour parcel {order.shipment.tracking} is on its way.\n\n" + "\n".join(lines)
    headers = {"Message-ID": f"<{key}@shop.example.com>"}
    EmailMessage(f"Your order {order.number}", body, to=[order.email], headers=headers).send()

"""The warehouse packs; the shop tells it what, and when to stop."""

from __future__ import annotations

from django.conf import settings
from django.urls import reverse

from loopback.client import Reply, post
from shop.models import Order, OrderStatus, Shipment


class WarehouseError(Exception):
    """The warehouse can't just now: worth another try."""


def begin_packing(order_id: int) -> bool:
    """Take the order past the point where the customer may cancel; False where the customer was faster."""
    begun = Order.objects.filter(
        pk=order_id, status__in=[OrderStatus.PAID, OrderStatus.PACKING], cancel_requested_at=None
    )
    return begun.update(status=OrderStatus.PACKING) == 1


def ask_warehouse(order_id: int) -> None:
    """The warehouse knows each order once, so asking twice packs one parcel."""
    order = Order.objects.get(pk=order_id)
    _tell("/pack", order, callback=settings.SHOP_SITE_URL + reverse("shop:packed"))


def stop_warehouse(order_id: int) -> bool:
    """False where the parcel is packed already."""
    reply = _tell("/stop", Order.objects.get(pk=order_id))
    return bool(reply.body["stopped"])


def mark_shipped(order_id: int, tracking: str) -> None:
    """Run as an ``atomic`` step: shipment, status and journal entry are one commit."""
    Shipment.objects.create(order_id=order_id, tracking=tracking)
    Order.objects.get(pk=order_id).end(OrderStatus.SHIPPED)


def _tell(path: str, order: Order, **more: str) -> Reply:
    reply = post(settings.SHOP_WAREHOUSE_URL + path, {"order": order.number, **more})
    if not reply.ok:
        raise WarehouseError(f"{reply.status} {reply.body.get('error', '')}")
    return reply

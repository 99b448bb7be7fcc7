"""Money, through the gateway: charge under a key, refund under the same key."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction

from django_durable.exceptions import NonRetriableError
from loopback.client import Reply, post
from shop.fulfilment.refusal import Refusal
from shop.models import Order, OrderStatus, Payment, RefusalReason


class GatewayError(Exception):
    """The gateway can't just now: worth another try."""


def charge_card(order_id: int, key: str) -> Refusal | None:
    """Charge the order's total. With the same ``key`` the gateway charges once, however often this is tried."""
    order = Order.objects.get(pk=order_id)
    amount = order.total
    reply = _ask("/charges", key, {"reference": order.number, "amount": str(amount), "card": order.card_token})
    if reply.status == 402:
        return Refusal(RefusalReason.CARD_DECLINED.value)
    with transaction.atomic():
        Payment.objects.get_or_create(order=order, defaults={"charge_id": reply.body["charge_id"], "amount": amount})
        Order.objects.filter(pk=order_id, status=OrderStatus.PLACED).update(status=OrderStatus.PAID)
    return None


def refund_charge(order_id: int, key: str) -> Decimal:
    """Give back whatever was charged under ``key`` and close the key; returns the amount, 0 if there was no charge."""
    order = Order.objects.get(pk=order_id)
    reply = _ask("/refunds", key, {"reference": order.number})
    return Decimal(reply.body["refunded"])


def book_refund(order_id: int, amount: Decimal) -> None:
    Payment.objects.filter(order_id=order_id).update(refunded=amount)


def _ask(path: str, key: str, body: dict[str, Any]) -> Reply:
    # The process id is for the demo, which wants to know whom to kill while a charge is under way.
    headers = {"Idempotency-Key": key, "X-Client-Pid": str(os.getpid())}
    url = settings.SHOP_GATEWAY_URL + path
    reply = post(url, body, headers=headers, timeout=settings.SHOP_GATEWAY_TIMEOUT_SECONDS)
    if reply.ok or reply.status == 402:
        return reply
    if reply.status >= 500:
        raise GatewayError(f"{reply.status} {reply.body.get('error', '')}")
    raise NonRetriableError(f"the gateway refuses the request: {reply.status} {reply.body.get('error', '')}")

"""Placing and cancelling an order: what the pages and the HTTP endpoint call."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from django_durable import tag_for
from shop.models import Order, OrderLine
from shop.ordering import BadOrder, OrderRequest
from shop.workflows import fulfil_order


def place_order(request: OrderRequest) -> tuple[Order, bool]:
    """The order and whether it is new. Placing the same number again returns the first order and starts nothing.

    Raises ``BadOrder`` where the number belongs to another customer's order.
    """
    # Order and run commit together: there is no order without a run, and no run without its order.
    with transaction.atomic():
        order, is_new = Order.objects.get_or_create(
            number=request.number,
            defaults={
                "customer": request.customer,
                "email": request.email,
                "country": request.country,
                "card_token": request.card_token,
            },
        )
        if is_new:
            OrderLine.objects.bulk_create(
                OrderLine(order=order, sku=line.sku, quantity=line.quantity, unit_price=line.unit_price)
                for line in request.lines
            )
            start = fulfil_order.using(idempotency_key=f"order-{order.number}", tags=[tag_for(order)])
            order.run_id = start.enqueue(order_id=order.pk).id
            order.save(update_fields=["run_id"])
    if not is_new and order.email != request.email:
        raise BadOrder("number", f"{request.number!r} is taken")
    return order, is_new


def request_cancel(order: Order) -> bool:
    """Note that the customer wants out; the run sees it after the cooling-off sleep. False where it is too late.

    One guarded UPDATE against the one in ``begin_packing``: exactly one of the two wins.
    """
    wanted = Order.objects.filter(pk=order.pk, status__in=Order.CANCELLABLE)
    return wanted.update(cancel_requested_at=timezone.now()) == 1

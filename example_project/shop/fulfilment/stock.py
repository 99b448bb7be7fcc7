"""From the shelf into a reservation, and back."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from shop.fulfilment.refusal import Refusal
from shop.models import Order, OrderLine, Product, RefusalReason, Reservation, Stock

SHIPPING_FEES = {
    "AT": Decimal("5.90"), "BE": Decimal("6.90"), "CH": Decimal("9.90"), "CZ": Decimal("6.90"), "DE": Decimal("3.90"),
    "DK": Decimal("7.90"), "ES": Decimal("8.90"), "FR": Decimal("7.90"), "GB": Decimal("9.90"), "IT": Decimal("8.90"),
    "NL": Decimal("5.90"), "PL": Decimal("5.90"), "PT": Decimal("8.90"), "SE": Decimal("8.90"),
}  # fmt: skip


def reserve_stock(order_id: int) -> Refusal | None:
    """Reserve all lines of the order or none of them; says why where it can't be."""
    order = Order.objects.get(pk=order_id)
    # Every order takes its products in the order of their SKUs, so two orders never wait for each other.
    lines = list(order.lines.order_by("sku"))
    products = {product.sku: product for product in Product.objects.filter(sku__in=[line.sku for line in lines])}
    if refusal := _look_over(order, lines, products):
        return refusal
    try:
        with transaction.atomic():
            for line in lines:
                _reserve(line, products[line.sku])
            Order.objects.filter(pk=order_id).update(shipping_fee=SHIPPING_FEES[order.country])
    except _SoldOut as sold_out:
        return Refusal(RefusalReason.NO_STOCK.value, str(sold_out))
    return None


def give_stock_back(order_id: int) -> int:
    """Release what the order still holds; returns how many units went back to the shelf."""
    units = 0
    with transaction.atomic():
        held = Reservation.objects.filter(line__order_id=order_id, released_at=None).order_by("product__sku")
        for reservation in held:
            # The guard makes a second runner of this step release nothing.
            ours = Reservation.objects.filter(pk=reservation.pk, released_at=None)
            if ours.update(released_at=timezone.now()):
                shelf = Stock.objects.filter(product_id=reservation.product_id)
                shelf.update(quantity=F("quantity") + reservation.quantity)
                units += reservation.quantity
    return units


class _SoldOut(Exception):
    pass


def _look_over(order: Order, lines: list[OrderLine], products: dict[str, Product]) -> Refusal | None:
    if order.country not in SHIPPING_FEES:
        return Refusal(RefusalReason.NO_DELIVERY.value, order.country)
    for line in lines:
        product = products.get(line.sku)
        if product is None:
            return Refusal(RefusalReason.UNKNOWN_SKU.value, line.sku)
        if product.price != line.unit_price:
            return Refusal(
                RefusalReason.PRICE_CHANGED.value, f"{line.sku} costs {product.price}, not {line.unit_price}"
            )
    return None


def _reserve(line: OrderLine, product: Product) -> None:
    _, is_new = Reservation.objects.get_or_create(line=line, defaults={"product": product, "quantity": line.quantity})
    if not is_new:
        return
    # Looking and taking are one statement: two orders can't both see the last unit.
    shelf = Stock.objects.filter(product=product, quantity__gte=line.quantity)
    if not shelf.update(quantity=F("quantity") - line.quantity):
        raise _SoldOut(f"{line.quantity} x {line.sku}")

"""The counting: nothing here trusts what the demo did, only rows in the database and lines in the gateway's ledger.

*charged twice* counts charges beyond the first for an order. *lost* counts what nobody can account for: an order
without an end, money without its goods or its order, units of which no row tells where they are. *oversold* counts
units that were promised to somebody, or are still on offer, beyond what ever came in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from demo import observe
from gateway.ledger import Entry
from shop.models import Order, OrderLine, OrderStatus, Product, Reservation


@dataclass
class Audit:
    """The three numbers, and a sentence for each thing that is wrong."""

    charged_twice: int = 0
    lost: int = 0
    oversold: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.charged_twice or self.lost or self.oversold)

    def __str__(self) -> str:
        return f"charged twice: {self.charged_twice}  lost: {self.lost}  oversold: {self.oversold}"


def audit(accepted: Collection[str], ledger: Iterable[Entry]) -> Audit:
    """Compare the order numbers that the site had accepted, the database and the gateway's ledger."""
    result = Audit()
    book = _by_reference(ledger)
    orders = {
        order.number: order for order in Order.objects.prefetch_related("lines").select_related("shipment", "payment")
    }
    statuses = observe.statuses([order.run_id for order in orders.values() if order.run_id])
    _count_charges(result, book)
    for number in sorted({*accepted, *orders, *book}):
        problem = _lost(orders.get(number), statuses, book.get(number, []))
        if problem:
            result.lost += 1
            result.findings.append(f"lost: {number}: {problem}")
    _count_units(result)
    return result


def _by_reference(ledger: Iterable[Entry]) -> dict[str, list[Entry]]:
    book: dict[str, list[Entry]] = defaultdict(list)
    for entry in ledger:
        book[entry.reference].append(entry)
    return dict(book)


def _count_charges(result: Audit, book: dict[str, list[Entry]]) -> None:
    for number, entries in book.items():
        charges = [entry for entry in entries if entry.kind == "charge"]
        if len(charges) > 1:
            result.charged_twice += len(charges) - 1
            result.findings.append(f"charged twice: {number}: {', '.join(entry.amount for entry in charges)}")


def _lost(order: Order | None, statuses: dict[UUID, str], entries: list[Entry]) -> str | None:
    """Why this order counts as lost, or None."""
    if order is None:
        return "the database does not know it"
    if not order.has_ended:
        return f"it is still {order.status}"
    status = statuses.get(order.run_id) if order.run_id else None
    if status != "succeeded":
        return f"its run is {status or 'gone'}"
    return _goods_problem(order) or _money_problem(order, entries)


def _goods_problem(order: Order) -> str | None:
    is_shipped = order.status == OrderStatus.SHIPPED
    if is_shipped != hasattr(order, "shipment"):
        return "shipped without a shipment" if is_shipped else f"{order.status}, but there is a shipment"
    return None


def _money_problem(order: Order, entries: list[Entry]) -> str | None:
    # A second charge is counted as such, and not once more as lost money.
    charged = next((entry.money for entry in entries if entry.kind == "charge"), Decimal(0))
    refunded = sum((entry.money for entry in entries if entry.kind == "refund"), Decimal(0))
    expected = order.total if order.status == OrderStatus.SHIPPED else Decimal(0)
    if charged - refunded != expected:
        return f"{order.status}, charged {charged} and refunded {refunded}, where {expected} should remain"
    booked = order.payment.amount - order.payment.refunded if hasattr(order, "payment") else Decimal(0)
    if booked != expected:
        return f"{order.status}, but the payment in the database says {booked} instead of {expected}"
    return None


def _count_units(result: Audit) -> None:
    shipped, reserved = _shipped_units(), _reserved_units()
    for product in Product.objects.select_related("stock"):
        promised = shipped[product.sku] + reserved[product.sku]
        surplus = promised + product.stock.quantity - product.stock.received
        if surplus > 0:
            result.oversold += surplus
            result.findings.append(f"oversold: {product.sku}: {surplus} units more than came in")
        elif surplus < 0:
            result.lost += 1
            result.findings.append(f"lost: {product.sku}: {-surplus} units are neither on the shelf nor promised")


def _shipped_units() -> Counter[str]:
    """What left the house, by the order lines: goods that were never reserved count as well."""
    lines = OrderLine.objects.filter(order__status=OrderStatus.SHIPPED)
    return Counter(dict(lines.order_by().values_list("sku").annotate(units=Sum("quantity"))))


def _reserved_units() -> Counter[str]:
    """What open orders hold. A reservation of an order that ended without goods is nobody's: it shows as lost."""
    held = Reservation.objects.filter(released_at=None, line__order__in=Order.objects.open())
    return Counter(dict(held.values_list("product__sku").annotate(units=Sum("quantity"))))

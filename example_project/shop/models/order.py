from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

from django_durable import get_run
from django_durable.exceptions import RunNotFound

if TYPE_CHECKING:
    from django_durable.client.handle import RunHandle


class OrderStatus(models.TextChoices):
    PLACED = "placed"
    PAID = "paid"
    PACKING = "packing"
    SHIPPED = "shipped"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class RefusalReason(models.TextChoices):
    UNKNOWN_SKU = "unknown_sku", "unknown SKU"
    PRICE_CHANGED = "price_changed", "price changed"
    NO_DELIVERY = "no_delivery", "no delivery there"
    NO_STOCK = "no_stock", "no stock"
    CARD_DECLINED = "card_declined", "card declined"
    NOT_PACKED = "not_packed", "not packed in time"
    CUSTOMER_CANCELLED = "customer_cancelled", "cancelled by the customer"


class OrderQuerySet(models.QuerySet["Order"]):
    def ended(self) -> OrderQuerySet:
        return self.filter(status__in=Order.ENDED)

    def open(self) -> OrderQuerySet:
        return self.exclude(status__in=Order.ENDED)


class Order(models.Model):
    ENDED = (OrderStatus.SHIPPED, OrderStatus.REFUSED, OrderStatus.CANCELLED)
    CANCELLABLE = (OrderStatus.PLACED, OrderStatus.PAID)

    number = models.CharField(max_length=32, unique=True)
    customer = models.CharField(max_length=100)
    email = models.EmailField()
    country = models.CharField(max_length=2)
    card_token = models.CharField(max_length=40)
    """What the card form of a payment provider hands out; a shop never sees the number itself."""
    shipping_fee = models.DecimalField(max_digits=6, decimal_places=2, default=Decimal(0))
    status = models.CharField(max_length=10, choices=OrderStatus.choices, default=OrderStatus.PLACED)
    refusal = models.CharField(max_length=20, choices=RefusalReason.choices, blank=True)
    refusal_detail = models.CharField(max_length=200, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    run_id = models.UUIDField(null=True, blank=True, editable=False)
    placed_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = OrderQuerySet.as_manager()

    class Meta:
        ordering = ["-placed_at", "-id"]
        constraints = [
            models.CheckConstraint(
                name="shop_order_refusal_has_reason",
                condition=Q(status__in=["refused", "cancelled"], refusal__gt="")
                | ~Q(status__in=["refused", "cancelled"]) & Q(refusal=""),
            ),
        ]

    def __str__(self) -> str:
        return self.number

    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines.all()), start=self.shipping_fee)

    def end(self, status: str, refusal: str = "", detail: str = "") -> None:
        """Give the order its final status; the refusal where it ends without goods."""
        self.status, self.refusal, self.refusal_detail = status, refusal, detail[:200]
        self.ended_at = timezone.now()
        self.save(update_fields=["status", "refusal", "refusal_detail", "ended_at"])

    @property
    def run(self) -> RunHandle[Any] | None:
        """The run that fulfils this order; None where retention has removed it."""
        try:
            return get_run(self.run_id) if self.run_id else None
        except RunNotFound:
            return None

    @property
    def has_ended(self) -> bool:
        return self.status in self.ENDED

    @property
    def is_cancellable(self) -> bool:
        return self.status in self.CANCELLABLE and self.cancel_requested_at is None


class OrderLine(models.Model):
    """What the customer asked for, as asked: the SKU may be unknown and the price may be of yesterday."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    sku = models.CharField(max_length=20)
    quantity = models.PositiveIntegerField()
    unit_price = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        ordering = ["sku"]
        constraints = [
            models.UniqueConstraint(fields=["order", "sku"], name="shop_line_once_per_sku"),
            models.CheckConstraint(condition=Q(quantity__gte=1), name="shop_line_quantity_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} x {self.sku}"

    @property
    def amount(self) -> Decimal:
        return self.quantity * self.unit_price

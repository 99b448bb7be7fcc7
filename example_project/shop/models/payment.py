from __future__ import annotations

from decimal import Decimal

from django.db import models

from shop.models.order import Order


class Payment(models.Model):
    """What the shop knows of the money; the truth about it is the gateway's ledger."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="payment")
    charge_id = models.CharField(max_length=40)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    refunded = models.DecimalField(max_digits=10, decimal_places=2, default=Decimal(0))
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.order}: {self.amount}"

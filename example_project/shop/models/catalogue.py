from __future__ import annotations

from django.db import models
from django.db.models import F, Q


class Product(models.Model):
    sku = models.CharField(max_length=20, unique=True)
    name = models.CharField(max_length=100)
    price = models.DecimalField(max_digits=8, decimal_places=2)

    class Meta:
        ordering = ["sku"]

    def __str__(self) -> str:
        return f"{self.sku} {self.name}"


class Stock(models.Model):
    """``quantity`` is on the shelf and free to promise; ``received`` is all that ever came in.

    Two numbers, so that overselling shows: what was promised plus what is on the shelf can't exceed what came in.
    """

    product = models.OneToOneField(Product, on_delete=models.PROTECT, related_name="stock")
    received = models.PositiveIntegerField()
    quantity = models.IntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(quantity__gte=0), name="shop_stock_not_negative"),
            models.CheckConstraint(condition=Q(quantity__lte=F("received")), name="shop_stock_not_above_received"),
        ]
        verbose_name_plural = "stock"

    def __str__(self) -> str:
        return f"{self.quantity} of {self.received}"

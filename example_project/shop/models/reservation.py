from __future__ import annotations

from django.db import models

from shop.models.catalogue import Product
from shop.models.order import OrderLine


class Reservation(models.Model):
    """Units taken from the shelf for one line of an order; released when the order ends without goods.

    One row for each line: a step that reserves a second time finds the first reservation and takes nothing.
    """

    line = models.OneToOneField(OrderLine, on_delete=models.PROTECT, related_name="reservation")
    product = models.ForeignKey(Product, on_delete=models.PROTECT, related_name="reservations")
    quantity = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.quantity} x {self.product.sku} for {self.line.order}"

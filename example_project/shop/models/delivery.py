from __future__ import annotations

from django.db import models

from shop.models.order import Order


class Shipment(models.Model):
    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="shipment")
    tracking = models.CharField(max_length=40, unique=True)
    shipped_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.tracking

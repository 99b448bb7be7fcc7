from __future__ import annotations

from django.db import models


class DailyReport(models.Model):
    """The books of one day, written by the cron workflow ``shop.close_day``."""

    day = models.DateField(unique=True)
    orders = models.PositiveIntegerField()
    shipped = models.PositiveIntegerField()
    refused = models.PositiveIntegerField()
    revenue = models.DecimalField(max_digits=12, decimal_places=2)
    times_closed = models.PositiveIntegerField()
    closed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-day"]

    def __str__(self) -> str:
        return str(self.day)

"""Closing the day."""

from __future__ import annotations

import datetime
from decimal import Decimal

from django.db.models import F, Sum

from shop.models import DailyReport, Order, OrderStatus, Payment


def write_report(day: datetime.date) -> dict[str, str]:
    """Write the row of ``day``, or bring it up to date. Run as an ``atomic`` step: each closing counts once."""
    orders = Order.objects.filter(placed_at__date=day)
    shipped = orders.filter(status=OrderStatus.SHIPPED)
    money = Payment.objects.filter(order__in=shipped).aggregate(sum=Sum(F("amount") - F("refunded")))
    facts = {
        "orders": orders.count(),
        "shipped": shipped.count(),
        "refused": orders.filter(status__in=[OrderStatus.REFUSED, OrderStatus.CANCELLED]).count(),
        "revenue": money["sum"] or Decimal(0),
    }
    DailyReport.objects.get_or_create(day=day, defaults={**facts, "times_closed": 0})
    DailyReport.objects.filter(day=day).update(**facts, times_closed=F("times_closed") + 1)
    return {"day": day.isoformat(), "revenue": str(facts["revenue"])}

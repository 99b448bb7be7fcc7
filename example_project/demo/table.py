"""The table at the end of the demo, from the same places as the audit: the database and the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Count

from demo import observe
from demo.murder import Strike
from gateway.ledger import Entry
from shop.models import DailyReport, Order, OrderStatus, RefusalReason

Row = tuple[str, object, str]


def table(ledger: Iterable[Entry], counts: dict[str, Any], strike: Strike | None) -> str:
    """``counts`` is what the gateway says of itself."""
    entries = list(ledger)
    rows = [*_order_rows(), *_gateway_rows(entries, counts), *_strike_rows(strike)]
    return "\n".join(f"{label:<40} {number!s:>8}  {note}".rstrip() for label, number, note in rows)


def took_over(strike: Strike) -> int:
    """How many of the dead worker's runs another one has brought to their end."""
    return sum(status == "succeeded" for status in observe.statuses(strike.leased).values())


def _order_rows() -> Iterator[Row]:
    yield "orders in", Order.objects.count(), ""
    yield "shipped", Order.objects.filter(status=OrderStatus.SHIPPED).count(), ""
    ended_without = Order.objects.exclude(refusal="")
    yield "refused", ended_without.count(), ""
    reasons = ended_without.order_by().values_list("refusal").annotate(count=Count("id")).order_by("-count", "refusal")
    for reason, count in reasons:
        yield f"  {RefusalReason(reason).label}", count, ""
    closed = DailyReport.objects.first()
    if closed:
        yield "times the day was closed by cron", closed.times_closed, f"{closed.shipped} shipped, {closed.revenue} EUR"


def _gateway_rows(entries: list[Entry], counts: dict[str, Any]) -> Iterator[Row]:
    kinds = [entry.kind for entry in entries]
    requests = counts.get("requests", 0)
    yield "charges at the gateway", kinds.count("charge"), f"{kinds.count('refund')} of them refunded"
    yield "requests that it got", requests, ""
    for label, name in (("  answered 503", "503"), ("  charged, then timed out", "timeouts")):
        count = counts.get(name, 0)
        yield label, count, f"{count / requests:.1%}" if requests else ""


def _strike_rows(strike: Strike | None) -> Iterator[Row]:
    if strike is None:
        yield "steps in flight at the kill", 0, "the kill hit nothing"
        return
    yield "steps in flight at the kill", len(strike.in_flight), f"{strike.charged} of them charged, but not journaled"
    yield "runs on the killed worker", len(strike.leased), ""
    yield "runs finished by another worker", took_over(strike), ""

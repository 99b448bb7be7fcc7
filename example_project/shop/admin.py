from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from django_durable.admin import RunsInline
from shop.models import DailyReport, Order, OrderLine, Payment, Product, Reservation, Shipment, Stock

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    TabularInline = admin.TabularInline[Any, Any]
else:  # At run time these classes take no parameters.
    ModelAdmin, TabularInline = admin.ModelAdmin, admin.TabularInline


class OrderLineInline(TabularInline):
    model = OrderLine
    extra = 0


@admin.register(Order)
class OrderAdmin(ModelAdmin):
    list_display = ["number", "customer", "country", "status", "refusal", "placed_at", "ended_at"]
    list_filter = ["status", "refusal", "country"]
    search_fields = ["number", "customer", "email"]
    readonly_fields = ["run_id", "status", "refusal", "refusal_detail", "cancel_requested_at", "ended_at"]
    inlines = [OrderLineInline, RunsInline]


@admin.register(Product)
class ProductAdmin(ModelAdmin):
    list_display = ["sku", "name", "price"]
    search_fields = ["sku", "name"]


@admin.register(Stock)
class StockAdmin(ModelAdmin):
    list_display = ["product", "received", "quantity"]
    list_select_related = ["product"]


@admin.register(Payment)
class PaymentAdmin(ModelAdmin):
    list_display = ["order", "charge_id", "amount", "refunded", "created_at"]
    list_select_related = ["order"]
    search_fields = ["order__number", "charge_id"]


@admin.register(Reservation)
class ReservationAdmin(ModelAdmin):
    list_display = ["line", "product", "quantity", "created_at", "released_at"]
    list_select_related = ["line__order", "product"]
    raw_id_fields = ["line"]


@admin.register(Shipment)
class ShipmentAdmin(ModelAdmin):
    list_display = ["order", "tracking", "shipped_at"]
    list_select_related = ["order"]
    search_fields = ["order__number", "tracking"]


@admin.register(DailyReport)
class DailyReportAdmin(ModelAdmin):
    list_display = ["day", "orders", "shipped", "refused", "revenue", "times_closed"]

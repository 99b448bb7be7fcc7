"""The pages: the shop window with an order form, and an order that one can watch."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from shop.forms import OrderForm
from shop.models import Order, Product
from shop.placing import place_order, request_cancel


@require_http_methods(["GET", "POST"])
def shop_window(request: HttpRequest) -> HttpResponse:
    """The catalogue and an order form; a placed order leads to its page."""
    form = OrderForm(request.POST or None, initial={"product": request.GET.get("sku")})
    if request.method == "POST" and form.is_valid():
        order, _ = place_order(form.to_request())
        return redirect("shop:order", number=order.number)
    products = Product.objects.select_related("stock")
    return render(request, "shop/window.html", {"form": form, "products": products})


@require_GET
def order_page(request: HttpRequest, number: str) -> HttpResponse:
    """The order and its run's journal; the page asks for itself again until the order has ended."""
    order = get_object_or_404(Order.objects.prefetch_related("lines"), number=number)
    run = order.run
    context = {
        "order": order,
        "run": run,
        "steps": run.steps() if run else [],
        "why": run.why() if run and not order.has_ended else None,
    }
    return render(request, "shop/order.html", context)


@require_POST
def cancel_order(request: HttpRequest, number: str) -> HttpResponse:
    order = get_object_or_404(Order, number=number)
    if not request_cancel(order):
        messages.info(request, "Too late: this order can't be cancelled any more.")
    return redirect("shop:order", number=order.number)

"""The shop over HTTP: orders from other systems, and the warehouse's call. JSON in, JSON out."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils.crypto import constant_time_compare
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from django_durable.exceptions import IllegalTransition
from shop.models import Order
from shop.ordering import BadOrder, parse_order
from shop.placing import place_order, request_cancel


# No session and no cookie takes part in these calls, so there is nothing that a forged request could ride on.
@csrf_exempt
@require_POST
def orders(request: HttpRequest) -> JsonResponse:
    """Place an order: 201, or 200 where that number was placed before."""
    try:
        order, is_new = place_order(parse_order(_json(request)))
    except BadOrder as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse(_facts(order), status=201 if is_new else 200)


@require_GET
def order(request: HttpRequest, number: str) -> JsonResponse:
    return JsonResponse(_facts(get_object_or_404(Order, number=number)))


@csrf_exempt
@require_POST
def cancel(request: HttpRequest, number: str) -> JsonResponse:
    """Ask for a cancellation: 202, or 409 where the order is past it."""
    order = get_object_or_404(Order, number=number)
    accepted = request_cancel(order)
    return JsonResponse({"accepted": accepted}, status=202 if accepted else 409)


@csrf_exempt
@require_POST
def packed(request: HttpRequest) -> JsonResponse:
    """The warehouse has packed an order. It calls until it hears a yes, so the same call may come again."""
    if not constant_time_compare(request.headers.get("Authorization", ""), f"Bearer {settings.SHOP_WEBHOOK_TOKEN}"):
        return JsonResponse({"error": "who are you?"}, status=403)
    try:
        parcel = _json(request)
        number, tracking = str(parcel["order"]), str(parcel["tracking"])
    except (BadOrder, KeyError) as error:
        return JsonResponse({"error": str(error)}, status=400)
    run = get_object_or_404(Order, number=number).run
    if run is None:
        return JsonResponse({"error": "that was long ago"}, status=410)
    # The warehouse did not hear our first yes, and the run has ended since.
    with suppress(IllegalTransition):
        run.send_event("packed", {"tracking": tracking}, idempotency_key=tracking)
    return JsonResponse({"accepted": True})


def _json(request: HttpRequest) -> dict[str, Any]:
    try:
        body = json.loads(request.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise BadOrder("body", "must be a JSON object")
    return body


def _facts(order: Order) -> dict[str, Any]:
    return {
        "number": order.number,
        "status": order.status,
        "refusal": order.get_refusal_display(),
        "total": str(order.total),
        "run": str(order.run_id),
    }

"""The customers: they order over HTTP, try again where nobody answers, and some think better of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from loopback.client import NoAnswer, Reply, post
from shop.order_file import FiledOrder

AT_ONCE = 4
TRIES = 5


class NotPlaced(Exception):
    def __init__(self, number: str, answer: object) -> None:
        super().__init__(f"{number} could not be placed: {answer}")


def place_orders(site_url: str, orders: Sequence[FiledOrder]) -> list[str]:
    """Place them all; returns the numbers that the site accepted. Raises ``NotPlaced`` for one that it would not."""
    with ThreadPoolExecutor(AT_ONCE) as customers:
        return list(customers.map(partial(_place, site_url), orders))


def _place(site_url: str, order: FiledOrder) -> str:
    number = order.request.number
    reply = _post(f"{site_url}/api/orders/", order.request.to_json(), number)
    if not reply.ok:
        raise NotPlaced(number, reply)
    if order.changes_mind:
        # 409 is a fine answer: the parcel was faster.
        _post(f"{site_url}/api/orders/{number}/cancel/", {}, number)
    return number


def _post(url: str, body: dict[str, object], number: str) -> Reply:
    # The order's number makes it safe to ask again.
    for attempt in range(1, TRIES + 1):
        try:
            reply = post(url, body, timeout=30)
            if reply.status < 500 or attempt == TRIES:
                return reply
        except NoAnswer as error:
            if attempt == TRIES:
                raise NotPlaced(number, error) from error
        time.sleep(0.2 * attempt)
    raise AssertionError("unreachable")

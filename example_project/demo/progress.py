"""One line that says how far things are: rewritten in a terminal, printed anew every two seconds elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from django.db.models import Count

from shop.models import Order, OrderStatus

PLAIN_SECONDS = 2.0


class Progress:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._started = time.monotonic()
        self._last = 0.0
        self._width = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        self._out.write(f"{self.seconds:5.1f} s  {text}\n")
        self._out.flush()

    def show(self, workers: int) -> None:
        """The state of all orders, now."""
        if self._is_terminal:
            self._rewrite(f"{self.seconds:5.1f} s  {_orders()}  workers {workers}")
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            self.say(f"{_orders()}  workers {workers}")

    def _rewrite(self, text: str) -> None:
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = len(text)

    def _clear(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._width = 0


def _orders() -> str:
    counts = dict(Order.objects.order_by().values_list("status").annotate(Count("id")))
    return "  ".join(f"{status.value} {counts.get(status, 0)}" for status in OrderStatus)

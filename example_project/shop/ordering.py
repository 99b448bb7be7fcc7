"""What an order must look like, wherever it comes from: the form, HTTP or the order file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

MAX_LINES = 50
_NUMBER = re.compile(r"[A-Za-z0-9-]{1,32}")
_COUNTRY = re.compile(r"[A-Z]{2}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


class BadOrder(ValueError):
    """An order that can't even be written down; ``field`` says where."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field}: {problem}")


@dataclass(frozen=True)
class LineRequest:
    sku: str
    quantity: int
    unit_price: Decimal


@dataclass(frozen=True)
class OrderRequest:
    """A well-formed order. Whether the shop can fulfil it is the workflow's business."""

    number: str
    customer: str
    email: str
    country: str
    card_token: str
    lines: tuple[LineRequest, ...]

    def to_json(self) -> dict[str, Any]:
        lines = [asdict(line) | {"unit_price": str(line.unit_price)} for line in self.lines]
        return asdict(self) | {"lines": lines}


def parse_order(data: Mapping[str, Any]) -> OrderRequest:
    """Check shape and size; raises ``BadOrder`` for the first field that does not fit."""
    lines = data.get("lines")
    if not isinstance(lines, list) or not 1 <= len(lines) <= MAX_LINES:
        raise BadOrder("lines", f"an order has 1 to {MAX_LINES} lines")
    return OrderRequest(
        number=_text(data, "number", 32, _NUMBER),
        customer=_text(data, "customer", 100),
        email=_text(data, "email", 254, _EMAIL),
        country=_text(data, "country", 2, _COUNTRY),
        card_token=_text(data, "card_token", 40),
        lines=_distinct([parse_line(line, index) for index, line in enumerate(lines)]),
    )


def parse_line(data: Any, index: int = 0) -> LineRequest:
    where = f"lines[{index}]"
    if not isinstance(data, Mapping):
        raise BadOrder(where, "must be an object")
    quantity = data.get("quantity")
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= 1_000_000:
        raise BadOrder(f"{where}.quantity", f"must be a whole number from 1 to 1000000, not {quantity!r}")
    return LineRequest(_text(data, "sku", 20), quantity, parse_price(data.get("unit_price"), f"{where}.unit_price"))


def parse_price(value: Any, where: str = "unit_price") -> Decimal:
    """Prices travel as text: a float would arrive as another number."""
    try:
        price = Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        price = None
    if price is None or not price.is_finite() or not 0 <= price < 1_000_000 or price != round(price, 2):
        raise BadOrder(where, f"must be a price like '12.50', not {value!r}")
    return price


def _text(data: Mapping[str, Any], name: str, longest: int, pattern: re.Pattern[str] | None = None) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > longest or not value.isprintable():
        raise BadOrder(name, f"must be text of 1 to {longest} characters, not {value!r}")
    if pattern and not pattern.fullmatch(value):
        raise BadOrder(name, f"{value!r} does not look right")
    return value


def _distinct(lines: Sequence[LineRequest]) -> tuple[LineRequest, ...]:
    skus = [line.sku for line in lines]
    for sku in skus:
        if skus.count(sku) > 1:
            raise BadOrder("lines", f"{sku} is there twice; give its quantity in one line")
    return tuple(lines)

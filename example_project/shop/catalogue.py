"""The catalogue file: what the shop sells, at which price, and how many there are."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from django.db import transaction

from shop.models import Product, Stock
from shop.ordering import parse_price

CATALOGUE_FILE = Path(__file__).parent / "data" / "catalogue.csv"


class CatalogueError(ValueError):
    def __init__(self, path: Path, line: int, problem: object) -> None:
        super().__init__(f"{path.name}, line {line}: {problem}")


@dataclass(frozen=True)
class CatalogueRow:
    sku: str
    name: str
    price: Decimal
    stock: int


def read_catalogue(path: Path = CATALOGUE_FILE) -> list[CatalogueRow]:
    """Every product of the file; raises ``CatalogueError`` with the line that can't be read."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        rows = []
        for record in reader:
            try:
                rows.append(_row(record))
            except (KeyError, TypeError, ValueError) as error:
                raise CatalogueError(path, reader.line_num, error) from error
    return rows


def load_catalogue(rows: list[CatalogueRow]) -> int:
    """Bring names and prices up to date and take in the stock of new products; returns how many were new.

    The stock of a product that is there already is left alone: it is counted by reservations from then on.
    """
    new = 0
    with transaction.atomic():
        for row in rows:
            product, _ = Product.objects.update_or_create(sku=row.sku, defaults={"name": row.name, "price": row.price})
            _, is_new = Stock.objects.get_or_create(
                product=product, defaults={"received": row.stock, "quantity": row.stock}
            )
            new += is_new
    return new


def _row(record: dict[str, str]) -> CatalogueRow:
    stock = int(record["stock"])
    if stock < 0 or not record["sku"] or not record["name"]:
        raise ValueError("a product needs a SKU, a name and a stock of 0 or more")
    return CatalogueRow(record["sku"], record["name"], parse_price(record["price"]), stock)

"""The order file: one line for each order line; lines with the same order number follow each other."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from shop.ordering import BadOrder, OrderRequest, parse_order

ORDER_FILE = Path(__file__).parent / "data" / "orders.csv"


class OrderFileError(ValueError):
    def __init__(self, path: Path, line: int, problem: object) -> None:
        super().__init__(f"{path.name}, line {line}: {problem}")


@dataclass(frozen=True)
class FiledOrder:
    """An order of the file, and whether its customer thinks better of it soon after."""

    request: OrderRequest
    changes_mind: bool


def read_orders(path: Path = ORDER_FILE) -> list[FiledOrder]:
    """Every order of the file; raises ``OrderFileError`` with the line where one can't be read."""
    orders = []
    seen: set[str] = set()
    for number, group in groupby(_records(path), key=lambda numbered: numbered[1]["order"]):
        records = list(group)
        line = records[0][0]
        if number in seen:
            raise OrderFileError(path, line, f"{number} is not in one place: the lines of an order follow each other")
        seen.add(number)
        try:
            orders.append(_order([record for _, record in records]))
        except (BadOrder, KeyError, TypeError, ValueError) as error:
            raise OrderFileError(path, line, error) from error
    return orders


def _records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        for record in reader:
            if "order" not in record or None in record or None in record.values():
                raise OrderFileError(path, reader.line_num, "it does not have the columns of the first line")
            yield reader.line_num, record


def _order(records: list[dict[str, str]]) -> FiledOrder:
    first = records[0]
    head = {name: first[name] for name in ("customer", "email", "country", "card_token")}
    for record in records[1:]:
        if any(record[name] != value for name, value in head.items()):
            raise BadOrder("order", "its lines name different customers, countries or cards")
    lines = [
        {"sku": record["sku"], "quantity": int(record["quantity"]), "unit_price": record["unit_price"]}
        for record in records
    ]
    request = parse_order({"number": first["order"], **head, "lines": lines})
    return FiledOrder(request, changes_mind=first["changes_mind"] == "yes")

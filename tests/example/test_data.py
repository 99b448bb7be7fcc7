"""The files that ship with the shop: the input of the demo."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from shop.data import generate
from shop.order_file import ORDER_FILE, FiledOrder, OrderFileError, read_orders


@pytest.fixture(scope="module")
def orders() -> list[FiledOrder]:
    return read_orders()


def test_the_order_file_has_500_lines_and_all_of_them_can_be_read(orders: list[FiledOrder]) -> None:
    lines = ORDER_FILE.read_text(encoding="utf-8").splitlines()
    assert len(lines) - 1 == sum(len(order.request.lines) for order in orders) >= 500
    assert len({order.request.number for order in orders}) == len(orders) == 400


def test_every_way_to_be_broken_is_in_it(orders: list[FiledOrder]) -> None:
    catalogue = {str(row["sku"]): row for row in generate.make_catalogue(generate.Random(generate.SEED))}
    lines = [line for order in orders for line in order.request.lines]
    known = [line for line in lines if line.sku in catalogue]
    assert len(lines) - len(known) >= 10, "unknown SKU"
    assert sum(line.quantity > int(str(catalogue[line.sku]["stock"])) for line in known) >= 5, "never enough stock"
    assert sum(str(line.unit_price) != str(catalogue[line.sku]["price"]) for line in known) >= 3, "price of yesterday"
    assert sum(order.request.card_token.endswith("0002") for order in orders) >= 10, "declined card"
    assert sum(order.request.country == "AQ" for order in orders) >= 3, "no delivery"
    assert sum(order.changes_mind for order in orders) >= 5, "cancelled"


def test_of_the_scarce_goods_more_are_ordered_than_there_are(orders: list[FiledOrder]) -> None:
    for sku, _, _, stock in generate.SCARCE:
        assert sum(line.quantity for order in orders for line in order.request.lines if line.sku == sku) > stock


def test_the_files_are_what_the_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    generate.main()
    committed = Path(importlib.import_module("shop.data").__path__[0])
    for name in ("catalogue.csv", "orders.csv"):
        assert (tmp_path / name).read_bytes() == (committed / name).read_bytes()


HEADER = "order,customer,email,country,card_token,changes_mind,sku,quantity,unit_price"
GOOD = "A,Ada,ada@example.com,DE,tok_1,no,TEA,1,4.50"


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("B,Bob,bob@example.com,DE,tok_1,no,TEA,none,4.50", "invalid literal"),
        ("B,Bob,bob@example.com,DE,tok_1,no,TEA,0,4.50", "quantity"),
        ("B,Bob,bob@example.com,DE,tok_1,no,TEA,1,cheap", "unit_price"),
        ("B,Bob,bob@example.com,Germany,tok_1,no,TEA,1,4.50", "country"),
        ("B,Bob,bob@example.com,DE,tok_1,no,TEA,1", "columns"),
        ("B,Bob,bob@example.com,DE,tok_1,no,TEA,1,4.50,more", "columns"),
        ("B,,bob@example.com,DE,tok_1,no,TEA,1,4.50", "customer"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path: Path, bad: str, problem: str) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n{bad}\n", encoding="utf-8")
    with pytest.raises(OrderFileError, match=rf"orders\.csv, line 3: .*{problem}"):
        read_orders(path)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([GOOD, "A,Eve,eve@example.com,DE,tok_1,no,CUP,1,4.50"], "different customers"),
        ([GOOD, GOOD], "TEA is there twice"),
        ([GOOD, GOOD.replace("A,", "B,", 1), GOOD], "not in one place"),
    ],
)
def test_the_lines_of_an_order_must_fit_together(tmp_path: Path, lines: list[str], problem: str) -> None:
    path = tmp_path / "orders.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    with pytest.raises(OrderFileError, match=problem):
        read_orders(path)

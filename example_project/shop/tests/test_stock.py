from __future__ import annotations

from typing import Any

from django.db import IntegrityError, transaction

from shop.fulfilment.stock import give_stock_back, reserve_stock
from shop.models import Reservation, Stock
from shop.tests.world import ShopTestCase, place


class StockTests(ShopTestCase):
    def shelf(self, sku: str) -> int:
        return Stock.objects.get(product__sku=sku).quantity

    def test_a_second_reservation_of_the_same_order_takes_nothing(self) -> None:
        order = place("A", quantity=3)
        for _ in range(2):
            self.assertIsNone(reserve_stock(order.pk))
        self.assertEqual(self.shelf("TEA"), 97)
        self.assertEqual(Reservation.objects.count(), 1)

    def test_all_lines_or_none(self) -> None:
        lines = [
            {"sku": "TEA", "quantity": 3, "unit_price": "4.50"},
            {"sku": "CUP", "quantity": 2, "unit_price": "20.00"},
        ]
        refusal = reserve_stock(place("A", lines=lines).pk)
        self.assertEqual(refusal and refusal.reason, "no_stock")
        self.assertEqual((self.shelf("TEA"), self.shelf("CUP")), (100, 1))
        self.assertFalse(Reservation.objects.exists())

    def test_the_last_one_is_sold_once(self) -> None:
        first, second = place("A", "CUP"), place("B", "CUP")
        self.assertIsNone(reserve_stock(first.pk))
        refusal = reserve_stock(second.pk)
        self.assertEqual(refusal and refusal.detail, "1 x CUP")

    def test_giving_back_twice_gives_back_once(self) -> None:
        order = place("A", quantity=3)
        reserve_stock(order.pk)
        self.assertEqual([give_stock_back(order.pk), give_stock_back(order.pk)], [3, 0])
        self.assertEqual(self.shelf("TEA"), 100)

    def test_what_can_not_be_sold_is_refused_with_its_reason(self) -> None:
        cases: list[tuple[str, dict[str, Any]]] = [
            ("unknown-sku", {"sku": "OLD"}),
            ("price-changed", {"lines": [{"sku": "TEA", "quantity": 1, "unit_price": "4.49"}]}),
            ("no-delivery", {"country": "AQ"}),
        ]
        for reason, order in cases:
            with self.subTest(reason):
                refusal = reserve_stock(place(reason, **order).pk)
                self.assertEqual(refusal and refusal.reason, reason.replace("-", "_"))

    def test_the_database_refuses_a_negative_shelf(self) -> None:
        for quantity in (-1, 101):
            with self.assertRaises(IntegrityError), transaction.atomic():
                Stock.objects.filter(product__sku="TEA").update(quantity=quantity)

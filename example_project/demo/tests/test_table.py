from __future__ import annotations

from demo.murder import Strike
from demo.table import table, took_over
from shop.models import Order
from shop.tests.world import DECLINED_CARD, ShopTestCase, fulfil, place

COUNTS = {"requests": 200, "503": 20, "timeouts": 9}


class TableTests(ShopTestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        place("shipped")
        place("declined", card_token=DECLINED_CARD)
        fulfil("shipped")

    def rows(self, strike: Strike | None) -> dict[str, str]:
        lines = table(self.outside.ledger, COUNTS, strike).splitlines()
        return {line[:40].strip(): line[40:].strip() for line in lines}

    def test_it_counts_orders_reasons_charges_and_faults(self) -> None:
        rows = self.rows(None)
        self.assertEqual([rows["orders in"], rows["shipped"]], ["2", "1"])
        self.assertEqual([rows["refused"], rows["card declined"]], ["1", "1"])
        self.assertEqual(rows["charges at the gateway"], "1  0 of them refunded")
        self.assertEqual(rows["answered 503"], "20  10.0%")
        self.assertEqual(rows["steps in flight at the kill"], "0  the kill hit nothing")

    def test_it_tells_what_the_kill_hit_and_who_went_on(self) -> None:
        runs = frozenset(order.run_id for order in Order.objects.all() if order.run_id)
        strike = Strike("worker 1", leased=runs, in_flight=frozenset(list(runs)[:1]), charged=1)
        rows = self.rows(strike)
        self.assertEqual(rows["steps in flight at the kill"], "1  1 of them charged, but not journaled")
        self.assertEqual(rows["runs finished by another worker"], "2")
        self.assertEqual(took_over(strike), 2)

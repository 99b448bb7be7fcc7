"""Each zero of the demo's last line, seen to become something else when ledger or database are doctored."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from django.db.models import F

from demo.audit import Audit, audit
from django_durable.models import Run
from gateway.ledger import Entry
from shop.models import Order, OrderLine, Payment, Reservation, Shipment, Stock
from shop.placing import request_cancel
from shop.tests.world import DECLINED_CARD, ShopTestCase, fulfil, place

ACCEPTED = ["cancelled", "declined", "shipped", "sold"]


class DoctoredTests(ShopTestCase):
    """Real orders, through the real workflow and a real gateway; then somebody tampers with the books."""

    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        place("shipped", quantity=2)
        place("sold", "CUP")
        place("declined", card_token=DECLINED_CARD)
        request_cancel(place("cancelled"))
        fulfil("shipped", "sold")

    def audit(self, doctor: Callable[[list[Entry]], list[Entry]] = list) -> Audit:
        """The counting, of a ledger file that went through the doctor's hands."""
        path = self.outside.ledger_path
        original = path.read_text()
        self.addCleanup(path.write_text, original)
        path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in doctor(self.outside.ledger)))
        result = audit(ACCEPTED, self.outside.ledger)
        path.write_text(original)
        return result

    def assertNumbers(self, result: Audit, charged_twice: int = 0, lost: int = 0, oversold: int = 0) -> None:
        self.assertEqual(str(result), f"charged twice: {charged_twice}  lost: {lost}  oversold: {oversold}")
        self.assertEqual(result.is_clean, not (charged_twice or lost or oversold))
        self.assertEqual(bool(result.findings), not result.is_clean)

    def test_honest_books_have_three_zeros(self) -> None:
        self.assertNumbers(self.audit())

    # --- charged twice

    def test_a_second_charge_under_another_key(self) -> None:
        self.assertNumbers(self.audit(_with_another(key="another")), charged_twice=1)

    def test_every_further_charge_counts(self) -> None:
        self.assertNumbers(self.audit(lambda book: [*book, *[_charge(book)] * 3]), charged_twice=3)

    # --- lost: the ledger

    def test_a_charge_that_is_not_in_the_ledger(self) -> None:
        self.assertNumbers(self.audit(lambda book: [entry for entry in book if entry.reference != "sold"]), lost=1)

    def test_a_charge_of_another_amount(self) -> None:
        def doctor(book: list[Entry]) -> list[Entry]:
            return [replace(entry, amount="0.01") if entry.reference == "sold" else entry for entry in book]

        self.assertNumbers(self.audit(doctor), lost=1)

    def test_a_refund_that_was_never_made(self) -> None:
        self.assertNumbers(self.audit(lambda book: [entry for entry in book if entry.kind != "refund"]), lost=1)

    def test_a_refund_for_goods_that_were_shipped(self) -> None:
        self.assertNumbers(self.audit(_with_another(kind="refund")), lost=1)

    def test_a_charge_for_an_order_that_was_refused(self) -> None:
        self.assertNumbers(self.audit(_with_another(reference="declined")), lost=1)

    def test_a_charge_for_nobodys_order(self) -> None:
        self.assertNumbers(self.audit(_with_another(reference="ghost")), lost=1)

    # --- lost: the database

    def test_an_order_that_the_database_does_not_know(self) -> None:
        Reservation.objects.filter(line__order__number="declined").delete()
        Order.objects.filter(number="declined").delete()
        self.assertNumbers(self.audit(), lost=1)

    def test_an_order_without_an_end(self) -> None:
        Order.objects.filter(number="declined").update(status="paid", refusal="")
        self.assertNumbers(self.audit(), lost=1)

    def test_a_run_that_failed(self) -> None:
        Run.objects.filter(id__in=Order.objects.filter(number="sold").values("run_id")).update(status="failed")
        self.assertNumbers(self.audit(), lost=1)

    def test_a_run_that_is_gone(self) -> None:
        Order.objects.filter(number="sold").update(run_id=None)
        self.assertNumbers(self.audit(), lost=1)

    def test_a_shipped_order_without_a_shipment(self) -> None:
        Shipment.objects.filter(order__number="sold").delete()
        self.assertNumbers(self.audit(), lost=1)

    def test_a_refused_order_with_a_shipment(self) -> None:
        Shipment.objects.create(order=Order.objects.get(number="declined"), tracking="free gift")
        self.assertNumbers(self.audit(), lost=1)

    def test_a_shipped_order_without_a_payment(self) -> None:
        Payment.objects.filter(order__number="sold").delete()
        self.assertNumbers(self.audit(), lost=1)

    def test_units_that_left_the_shelf_for_nobody(self) -> None:
        Stock.objects.filter(product__sku="TEA").update(quantity=F("quantity") - 5)
        self.assertNumbers(self.audit(), lost=1)

    def test_stock_of_a_refused_order_that_was_not_given_back(self) -> None:
        Reservation.objects.filter(line__order__number="declined").update(released_at=None)
        Stock.objects.filter(product__sku="TEA").update(quantity=F("quantity") - 1)
        self.assertNumbers(self.audit(), lost=1)

    # --- oversold

    def test_more_on_offer_than_there_is(self) -> None:
        Stock.objects.filter(product__sku="TEA").update(quantity=F("quantity") + 2)
        self.assertNumbers(self.audit(), oversold=2)

    def test_the_last_cup_promised_to_a_second_customer(self) -> None:
        first = Order.objects.get(number="sold")
        second = place("second", "CUP")
        line = second.lines.get()
        Reservation.objects.create(line=line, product=first.lines.get().reservation.product, quantity=1)
        self.assertNumbers(self.audit(), lost=1, oversold=1)  # The second one has no end yet.

    def test_goods_that_left_without_a_reservation(self) -> None:
        Reservation.objects.filter(line__order__number="shipped").delete()
        Stock.objects.filter(product__sku="TEA").update(quantity=F("quantity") + 2)
        self.assertNumbers(self.audit(), oversold=2)

    def test_a_shelf_that_the_database_let_go_negative(self) -> None:
        """Without the CHECK constraint a lost update would look like this, and it is seen from the reservations."""
        reservation = Reservation.objects.get(line__order__number="sold")
        Reservation.objects.filter(pk=reservation.pk).update(quantity=2)
        OrderLine.objects.filter(pk=reservation.line_id).update(quantity=2)
        self.assertGreater(self.audit().oversold, 0)


def _charge(book: list[Entry]) -> Entry:
    return next(entry for entry in book if entry.kind == "charge" and entry.reference == "sold")


def _with_another(**changes: Any) -> Callable[[list[Entry]], list[Entry]]:
    """The ledger with one line more: the charge of the order "sold", with these changes."""
    return lambda book: [*book, replace(_charge(book), **changes)]

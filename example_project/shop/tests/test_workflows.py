"""The workflows on the real engine, without a worker: everything happens in this thread."""

from __future__ import annotations

from unittest.mock import patch

from django.core import mail

from django_durable.testing import crash_after, run_until_idle
from gateway.faults import Fault, FaultPlan
from shop.models import DailyReport, Order, Payment, Stock
from shop.placing import request_cancel
from shop.tests.world import DECLINED_CARD, ShopTestCase, fulfil, pack, place, run_of
from shop.workflows import GATEWAY, close_day


class FulfilOrderTests(ShopTestCase):
    def assertEnded(self, order: Order, status: str, reason: str = "") -> None:
        order.refresh_from_db()
        self.assertEqual((order.status, order.refusal), (status, reason))
        self.assertEqual(order.run and order.run.status, "succeeded")

    def assertMoney(self, order: Order, *movements: tuple[str, str]) -> None:
        entries = [(entry.kind, entry.amount) for entry in self.outside.ledger if entry.reference == order.number]
        self.assertEqual(entries, list(movements))

    def shelf(self, sku: str) -> int:
        return Stock.objects.get(product__sku=sku).quantity

    def test_an_order_is_paid_packed_shipped_and_confirmed(self) -> None:
        order = place("ship", quantity=2)
        fulfil("ship")
        self.assertEnded(order, "shipped")
        self.assertMoney(order, ("charge", "12.90"))
        self.assertEqual(order.shipment.tracking, "DD-ship")
        self.assertEqual([message.to for message in mail.outbox], [["chloe@example.com"]])
        self.assertIn("12.90", mail.outbox[0].body)
        self.assertEqual(self.shelf("TEA"), 98)

    def test_a_declined_card_gives_the_stock_back(self) -> None:
        order = place("declined", card_token=DECLINED_CARD)
        run_until_idle()
        self.assertEnded(order, "refused", "card_declined")
        self.assertMoney(order)
        self.assertEqual(self.shelf("TEA"), 100)

    def test_no_stock_never_comes_near_the_gateway(self) -> None:
        order = place("huge", quantity=101)
        run_until_idle()
        self.assertEnded(order, "refused", "no_stock")
        self.assertMoney(order)

    def test_a_customer_who_cancels_gets_the_money_back(self) -> None:
        order = place("cancel")
        self.assertTrue(request_cancel(order))
        run_until_idle()
        self.assertEnded(order, "cancelled", "customer_cancelled")
        self.assertMoney(order, ("charge", "8.40"), ("refund", "8.40"))
        self.assertEqual(str(order.payment.refunded), "8.40")
        self.assertEqual(self.shelf("TEA"), 100)
        self.assertNotIn("cancel", self.outside.parcels)

    def test_an_order_that_nobody_packs_is_paid_back(self) -> None:
        order = place("forgotten")
        run_until_idle(skip_waits=True)
        self.assertEnded(order, "refused", "not_packed")
        self.assertMoney(order, ("charge", "8.40"), ("refund", "8.40"))

    def test_a_parcel_that_is_packed_in_the_last_moment_is_shipped(self) -> None:
        order = place("late")
        with patch.object(self.outside, "is_packed", True):
            run_until_idle(skip_waits=True)
        pack("late")
        run_until_idle()
        self.assertEnded(order, "shipped")
        self.assertMoney(order, ("charge", "8.40"))

    def test_a_crash_between_charge_and_journal_charges_once(self) -> None:
        order = place("crash")
        with crash_after("charge card", before=True):
            run_until_idle()
        fulfil("crash")
        self.assertEnded(order, "shipped")
        self.assertMoney(order, ("charge", "8.40"))

    def test_the_day_is_closed(self) -> None:
        place("day")
        fulfil("day")
        close_day.enqueue()
        close_day.enqueue()
        run_until_idle()
        report = DailyReport.objects.get()
        self.assertEqual((report.orders, report.shipped, report.times_closed), (1, 1, 2))


class Lost(FaultPlan):
    """The first request charges and is not answered, all further attempts find nobody."""

    def fault(self, number: int) -> Fault:
        if number == 0:
            return Fault.TIMEOUT
        return Fault.UNAVAILABLE if number < GATEWAY.max_attempts else Fault.NONE


class GatewayLostTests(ShopTestCase):
    plan = Lost(0)

    def test_a_run_that_failed_not_knowing_of_its_charge_is_resumed_and_finds_it(self) -> None:
        order = place("lost")
        run_until_idle(skip_waits=True)
        run = run_of(order)
        self.assertEqual(run.status, "failed")
        self.assertEqual(len(self.outside.ledger), 1)
        run.resume()
        fulfil("lost")
        order.refresh_from_db()
        self.assertEqual(order.status, "shipped")
        self.assertEqual([entry.kind for entry in self.outside.ledger], ["charge"])


class Silent(FaultPlan):
    """The first charge is made and not answered."""

    def fault(self, number: int) -> Fault:
        return Fault.TIMEOUT if number == 0 else Fault.NONE


class GatewaySilentTests(ShopTestCase):
    plan = Silent(0)

    def test_a_charge_without_an_answer_is_asked_for_again_and_made_once(self) -> None:
        place("silent")
        run_until_idle(skip_waits=True)
        self.assertEqual([entry.kind for entry in self.outside.ledger].count("charge"), 1)
        self.assertTrue(Payment.objects.exists())

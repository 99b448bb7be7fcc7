"""A night without the payment gateway: what fails, and how an operator lets all of it go on."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_durable.testing import run_until_idle
from shop.models import Order, Payment, Stock
from shop.tests.world import DECLINED_CARD, ShopTestCase, fulfil, place, run_of
from shop.workflows import CHARGE, GATEWAY

NUMBERS = ["one", "three", "two"]


class OutageTests(ShopTestCase):
    def setUp(self) -> None:
        self.outside.tell_gateway("break")
        self.addCleanup(self.outside.tell_gateway, "repair")

    def assertAre(self, run_status: str, order_status: str) -> None:
        for order in Order.objects.all():
            self.assertEqual((run_of(order).status, order.status), (run_status, order_status), order.number)

    def test_what_failed_is_resumed_in_the_admin_and_shipped_each_charged_once(self) -> None:
        for number in NUMBERS:
            place(number)
        run_until_idle(skip_waits=True)
        self.assertAre("failed", "placed")
        self.assertEqual(self.outside.ledger, [])
        self.outside.tell_gateway("repair")
        resume_all_that_match("?status=failed&workflow=shop.fulfil_order")
        fulfil(*NUMBERS)
        self.assertAre("succeeded", "shipped")
        charged = [entry.reference for entry in self.outside.ledger if entry.kind == "charge"]
        self.assertEqual(sorted(charged), NUMBERS)
        self.assertEqual(Payment.objects.count(), 3)
        self.assertEqual(Stock.objects.get(product__sku="TEA").quantity, 97)

    def test_who_resumes_too_early_may_resume_again(self) -> None:
        order = place("early")
        for _ in range(2):
            run_until_idle(skip_waits=True)
            run = run_of(order)
            [charge] = [step for step in run.steps() if step.path == CHARGE]
            self.assertEqual((run.status, charge.attempts), ("failed", GATEWAY.max_attempts))
            run.resume()
        self.outside.tell_gateway("repair")
        fulfil("early")
        self.assertAre("succeeded", "shipped")

    def test_a_failure_shows_within_half_a_minute(self) -> None:
        delays = [GATEWAY.delay(attempt, lambda: 1.0) for attempt in range(1, GATEWAY.max_attempts)]
        self.assertLess(sum(delays), 25)

    def test_only_a_declined_card_is_refused(self) -> None:
        order = place("declined", card_token=DECLINED_CARD)
        run_until_idle(skip_waits=True)
        self.assertAre("failed", "placed")
        self.outside.tell_gateway("repair")
        run_of(order).resume()
        run_until_idle()
        self.assertAre("succeeded", "refused")

    def test_the_page_of_an_order_that_failed_says_so(self) -> None:
        place("page")
        run_until_idle(skip_waits=True)
        self.assertContains(self.client.get("/orders/page/"), "stays so until somebody resumes it")


def resume_all_that_match(query: str) -> None:
    """As an operator does it: chosen in the list, asked, answered."""
    admin = Client()
    admin.force_login(User.objects.create_superuser("admin"))
    runs = reverse("admin:django_durable_run_changelist") + query
    chosen = {"action": "resume_selected", "index": "0", "select_across": "1", "_selected_action": "all"}
    asked = admin.post(runs, chosen)
    fields = {field.name: field.value() for field in asked.context["form"] if field.value() is not None}
    answer = {**dict(asked.context["hidden"]), **fields, "confirmed": "1", "reason": "the gateway is repaired"}
    admin.post(asked.context["target"], answer)

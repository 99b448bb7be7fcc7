from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

from django.contrib.auth.models import User
from django.urls import reverse

from django_durable.testing import run_until_idle
from shop.models import Order
from shop.tests.world import TOKEN, ShopTestCase, fulfil, order_data, pack, place


class OrderEndpointTests(ShopTestCase):
    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.client.post(path, body, content_type="application/json", headers=headers)

    def test_the_same_order_twice_is_one_order(self) -> None:
        first, second = (self.post("/api/orders/", order_data("A")) for _ in range(2))
        self.assertEqual([first.status_code, second.status_code], [201, 200])
        self.assertEqual(first.json()["run"], second.json()["run"])
        self.assertEqual(Order.objects.count(), 1)

    def test_a_number_of_somebody_else_is_refused(self) -> None:
        place("A")
        answer = self.post("/api/orders/", order_data("A", email="mallory@example.com"))
        self.assertEqual((answer.status_code, answer.json()), (400, {"error": "number: 'A' is taken"}))

    def test_no_run_no_order(self) -> None:
        self.client.raise_request_exception = False
        broken = patch("shop.placing.fulfil_order.using", side_effect=RuntimeError)
        with broken, self.assertLogs("django.request", "ERROR"):
            self.assertEqual(self.post("/api/orders/", order_data("A")).status_code, 500)
        self.assertFalse(Order.objects.exists())

    def test_what_is_no_order_is_named(self) -> None:
        line = {"sku": "TEA", "quantity": 1, "unit_price": "4.50"}
        bad: dict[str, Any] = {
            "number": order_data("a b"),
            "email": order_data("A", email="nobody"),
            "country": order_data("A", country="Germany"),
            "customer": order_data("A", customer="\x00"),
            "lines: an order": order_data("A", lines=[]),
            "lines: TEA": order_data("A", lines=[line, line]),
            r"lines\[0\].quantity": order_data("A", quantity=0),
            r"lines\[0\].unit_price": order_data("A", lines=[{**line, "unit_price": "NaN"}]),
            r"lines\[1\]": order_data("A", lines=[line, None]),
            "body": "[1]",
        }
        for where, body in bad.items():
            with self.subTest(where):
                answer = self.post("/api/orders/", body)
                self.assertEqual(answer.status_code, 400)
                self.assertRegex(answer.json()["error"], f"^{where}")
        self.assertFalse(Order.objects.exists())

    def test_an_order_tells_how_it_is(self) -> None:
        place("A")
        self.assertEqual(self.client.get("/api/orders/A/").json()["status"], "placed")
        self.assertEqual(self.client.get("/api/orders/B/").status_code, 404)

    def test_a_cancellation_is_accepted_until_packing_begins(self) -> None:
        place("A")
        self.assertEqual(self.post("/api/orders/A/cancel/", {}).status_code, 202)
        place("B")
        run_until_idle()
        self.assertEqual(self.post("/api/orders/B/cancel/", {}).status_code, 409)


class PackedWebhookTests(ShopTestCase):
    def call(self, body: Any, token: str = TOKEN) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.client.post("/webhooks/packed/", body, content_type="application/json", headers=headers)
        return answer.status_code

    def test_only_the_warehouse_may_call(self) -> None:
        place("A")
        self.assertEqual(self.call({"order": "A", "tracking": "T"}, token="guessed"), 403)
        self.assertEqual(self.client.post("/webhooks/packed/").status_code, 403)

    def test_nonsense_is_refused(self) -> None:
        self.assertEqual(self.call({"order": "A"}), 400)
        self.assertEqual(self.call("[]"), 400)
        self.assertEqual(self.call({"order": "A", "tracking": "T"}), 404)

    def test_the_same_call_again_is_fine_also_after_the_end(self) -> None:
        order = place("A")
        run_until_idle()
        pack("A")
        self.assertEqual(self.call({"order": "A", "tracking": "DD-A"}), 200)
        run_until_idle()
        self.assertEqual(self.call({"order": "A", "tracking": "DD-A"}), 200)
        order.refresh_from_db()
        self.assertEqual(order.status, "shipped")


FORM = {
    "product": "TEA",
    "quantity": "2",
    "customer": "Ada",
    "email": "ada@example.com",
    "country": "DE",
    "card_token": "tok_visa_4242",
}


class PageTests(ShopTestCase):
    def test_a_person_orders_and_watches(self) -> None:
        self.assertContains(self.client.get("/"), "TEA")
        answer = self.client.post("/", FORM)
        order = Order.objects.get()
        self.assertRedirects(answer, reverse("shop:order", args=[order.number]))
        self.assertContains(self.client.get(answer["Location"]), 'http-equiv="refresh"')
        fulfil(order.number)
        page = self.client.get(answer["Location"])
        self.assertContains(page, "Shipped")
        self.assertContains(page, "charge card")
        self.assertNotContains(page, 'http-equiv="refresh"')

    def test_the_page_tells_how_far_the_order_is(self) -> None:
        order = place("A")
        run_until_idle()
        page = self.client.get("/orders/A/").content.decode()
        self.assertIn("50 %", page)  # reserved and paid, of four
        [again] = re.findall(r'data-durable-refresh="([^"]+)"', page)
        pack(order.number)
        run_until_idle()
        self.assertContains(self.client.get(again), "100 %")
        self.assertEqual(self.client.get(again.partition("?")[0]).status_code, 404)

    def test_the_admin_shows_the_runs_of_an_order(self) -> None:
        order = place("A")
        self.client.force_login(User.objects.create_superuser("admin"))
        page = self.client.get(reverse("admin:shop_order_change", args=[order.pk]))
        self.assertContains(page, reverse("admin:django_durable_run_change", args=[order.run_id]))

    def test_a_form_with_a_mistake_comes_back(self) -> None:
        answer = self.client.post("/", {**FORM, "product": "OLD", "quantity": "0"})
        self.assertEqual(set(answer.context["form"].errors), {"product", "quantity"})

    def test_a_person_cancels(self) -> None:
        place("A")
        answer = self.client.post("/orders/A/cancel/", follow=True)
        self.assertContains(answer, "You cancelled this order")
        self.assertNotContains(answer, "<button>")

    def test_too_late_is_said(self) -> None:
        place("A")
        run_until_idle()
        self.assertContains(self.client.post("/orders/A/cancel/", follow=True), "Too late")

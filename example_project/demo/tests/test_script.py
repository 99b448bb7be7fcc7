"""What the demo's exit status says, on honest books and on doctored ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from io import StringIO
from unittest.mock import patch
from uuid import uuid4

from django.core.management import call_command
from django.db.models import F

from demo.murder import Strike
from demo.script import count_up
from gateway.ledger import Entry
from shop.models import Order, Stock
from shop.tests.world import ShopTestCase, fulfil, place

COUNTS: dict[str, object] = {"requests": 20, "503": 2, "timeouts": 1}


class StatusTests(ShopTestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        place("shipped", quantity=2)
        place("cup", "CUP")
        fulfil("shipped", "cup")

    def setUp(self) -> None:
        runs = frozenset(order.run_id for order in Order.objects.all() if order.run_id)
        self.hit = Strike("worker 1", leased=runs, in_flight=runs, charged=1)

    def assertStatus(self, status: int, hit: Strike | None, last_line: str) -> None:
        out = StringIO()
        self.assertEqual(count_up(["shipped", "cup"], self.outside.ledger_path, COUNTS, hit, out), status)
        self.assertEqual(out.getvalue().splitlines()[-1], last_line)

    def doctor(self, change: Callable[[list[Entry]], list[Entry]]) -> None:
        """Rewrite the ledger for this test."""
        path = self.outside.ledger_path
        self.addCleanup(path.write_text, path.read_text())
        path.write_text("".join(json.dumps(asdict(entry)) + "\n" for entry in change(self.outside.ledger)))

    def test_three_zeros_and_a_kill_that_hit_something_are_a_success(self) -> None:
        self.assertStatus(0, self.hit, "charged twice: 0  lost: 0  oversold: 0")

    def test_a_kill_that_hit_nothing_shows_nothing(self) -> None:
        self.assertStatus(1, None, "charged twice: 0  lost: 0  oversold: 0")

    def test_a_kill_whose_runs_nobody_finished_shows_nothing(self) -> None:
        nobodys = replace(self.hit, leased=frozenset([uuid4()]))
        self.assertStatus(1, nobodys, "charged twice: 0  lost: 0  oversold: 0")

    def test_a_second_charge(self) -> None:
        self.doctor(lambda book: [*book, replace(book[0], key="another")])
        self.assertStatus(1, self.hit, "charged twice: 1  lost: 0  oversold: 0")

    def test_a_charge_that_is_not_in_the_ledger(self) -> None:
        self.doctor(lambda book: book[1:])
        self.assertStatus(1, self.hit, "charged twice: 0  lost: 1  oversold: 0")

    def test_an_order_that_was_accepted_and_is_not_there(self) -> None:
        out = StringIO()
        accepted = ["shipped", "cup", "ghost"]
        self.assertEqual(count_up(accepted, self.outside.ledger_path, COUNTS, self.hit, out), 1)
        self.assertIn("lost: ghost: the database does not know it", out.getvalue())

    def test_units_on_offer_that_never_came_in(self) -> None:
        Stock.objects.filter(product__sku="TEA").update(quantity=F("quantity") + 1)
        self.assertStatus(1, self.hit, "charged twice: 0  lost: 0  oversold: 1")

    def test_the_command_ends_with_that_status(self) -> None:
        command = "demo.management.commands.demo"
        # Its handler for SIGTERM is not for this process.
        with (
            patch(f"{command}.signal.signal"),
            patch(f"{command}.perform", return_value=1),
            self.assertRaises(SystemExit) as end,
        ):
            call_command("demo")
        self.assertEqual(end.exception.code, 1)

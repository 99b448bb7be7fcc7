"""What the shop needs around it in a test: a real gateway over HTTP, and a warehouse that takes notes."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

from django.test import Client, TestCase, override_settings

from django_durable.client.handle import RunHandle
from django_durable.testing import run_until_idle
from gateway.bank import Bank
from gateway.faults import Fault, FaultPlan
from gateway.ledger import Entry, Ledger, read_ledger
from gateway.server import Gateway, Temper
from loopback.client import post
from loopback.server import Answer, Call, JsonServer
from shop.catalogue import CatalogueRow, load_catalogue
from shop.models import Order
from shop.ordering import OrderRequest, parse_order, parse_price
from shop.placing import place_order

GOOD_CARD, DECLINED_CARD = "tok_visa_4242", "tok_visa_0002"
TOKEN = "a token of the tests"


class Calm(FaultPlan):
    def fault(self, number: int) -> Fault:
        return Fault.NONE


class Outside:
    """Gateway and warehouse on free ports, until ``close``."""

    def __init__(self, folder: Path, plan: FaultPlan) -> None:
        self.ledger_path = folder / "ledger.jsonl"
        self.parcels: list[str] = []
        self.is_packed = False
        bank = Bank(Ledger(self.ledger_path))
        self._gateway = Gateway(bank, plan, Temper(latency=0, hold=0)).serve(0)
        self.gateway_url = self._gateway.url
        self._warehouse = JsonServer(0, {"POST /pack": self._pack, "POST /stop": self._stop})
        for server in (self._gateway, self._warehouse):
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "SHOP_GATEWAY_URL": self.gateway_url,
            "SHOP_WAREHOUSE_URL": self._warehouse.url,
            "SHOP_WEBHOOK_TOKEN": TOKEN,
            "SHOP_COOLING_OFF_SECONDS": 0,
            "SHOP_PACKING_SECONDS": 60,
        }

    def tell_gateway(self, what: str) -> None:
        """Have it ``break`` or ``repair`` itself."""
        reply = post(f"{self.gateway_url}/{what}", {})
        if not reply.ok:
            raise AssertionError(reply)

    @property
    def ledger(self) -> list[Entry]:
        return list(read_ledger(self.ledger_path))

    def close(self) -> None:
        for server in (self._gateway, self._warehouse):
            server.shutdown()
            server.server_close()

    def _pack(self, call: Call) -> Answer:
        self.parcels.append(call.body["order"])
        return Answer(202, {})

    def _stop(self, call: Call) -> Answer:
        return Answer(200, {"stopped": not self.is_packed})


class ShopTestCase(TestCase):
    """A shop with two products: plenty of TEA at 4.50, and one CUP at 20.00. Delivery to DE costs 3.90."""

    plan: FaultPlan = Calm(0)
    """What goes wrong at the gateway."""
    outside: Outside

    @classmethod
    def setUpClass(cls) -> None:
        # Before the data is set up: making it may need the outside.
        cls.outside = Outside(Path(cls.enterClassContext(tempfile.TemporaryDirectory())), cls.plan)
        cls.addClassCleanup(cls.outside.close)
        cls.enterClassContext(override_settings(**cls.outside.settings))
        super().setUpClass()

    @classmethod
    def setUpTestData(cls) -> None:
        load_catalogue(
            [
                CatalogueRow("CUP", "Cup", parse_price("20.00"), 1),
                CatalogueRow("TEA", "Tea", parse_price("4.50"), 100),
            ]
        )


def order_data(number: str, sku: str = "TEA", quantity: int = 1, **other: Any) -> dict[str, Any]:
    """The JSON of an order as the shop takes it over HTTP."""
    price = {"TEA": "4.50", "CUP": "20.00"}.get(sku, "1.00")
    return {
        "number": number,
        "customer": "Chloé Groß",
        "email": "chloe@example.com",
        "country": "DE",
        "card_token": GOOD_CARD,
        "lines": [{"sku": sku, "quantity": quantity, "unit_price": price}],
        **other,
    }


def request(number: str, sku: str = "TEA", quantity: int = 1, **other: Any) -> OrderRequest:
    return parse_order(order_data(number, sku, quantity, **other))


def place(number: str, sku: str = "TEA", quantity: int = 1, **other: Any) -> Order:
    order, _ = place_order(request(number, sku, quantity, **other))
    return order


def run_of(order: Order) -> RunHandle[Any]:
    run = order.run
    if run is None:
        raise AssertionError(f"{order} has no run")
    return run


def pack(number: str, tracking: str = "") -> None:
    """The warehouse's call: it has packed this order."""
    Client().post(
        "/webhooks/packed/",
        {"order": number, "tracking": tracking or f"DD-{number}"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {TOKEN}"},
    )


def fulfil(*numbers: str) -> None:
    """Let the runs go on until they wait, pack these orders, and let the runs end."""
    run_until_idle()
    for number in numbers:
        pack(number)
    run_until_idle()

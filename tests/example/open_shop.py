"""The example's shop as real processes: a test orders there, and reads the payment gateway's own book."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import run
from typing import Any

from tests.example.conftest import PROJECT  # isort: skip  (from it on, the example's packages are found)
from demo.processes import Household, wait_until_ready
from gateway.ledger import read_ledger
from loopback.client import get, post

USER, PASSWORD = "admin", "for this test only"
SECRETS = {"DJANGO_SUPERUSER_PASSWORD": PASSWORD, "SHOP_WEBHOOK_TOKEN": "the warehouse's"}
HOUR = 3600.0


@dataclass(frozen=True)
class Shop:
    url: str
    gateway: str
    ledger: Path

    def order(self, number: str) -> None:
        """Place one of that number. Raises AssertionError where the shop will not have it."""
        reply = post(f"{self.url}/api/orders/", order_of(number))
        assert reply.status == 201, reply

    def status(self, number: str) -> str:
        return str(get(f"{self.url}/api/orders/{number}/").body["status"])

    def tell_gateway(self, what: str) -> None:
        """Have it ``break`` or ``repair`` itself."""
        reply = post(f"{self.gateway}/{what}", {})
        assert reply.ok, reply

    def charged(self) -> list[str]:
        """The orders of the charges in the gateway's book, the oldest first."""
        return [entry.reference for entry in read_ledger(self.ledger) if entry.kind == "charge"]


def order_of(number: str) -> dict[str, Any]:
    return {
        "number": number,
        "customer": "Ada",
        "email": "ada@example.com",
        "country": "DE",
        "card_token": "tok_4242",
        "lines": [{"sku": "TEA-01-100", "quantity": 1, "unit_price": "9.50"}],
    }


@contextmanager
def open_shop(
    environment: Mapping[str, str], folder: Path, *, seed: int = 7, pack_seconds: float = HOUR
) -> Iterator[Shop]:
    """Site, worker, gateway (which only stumbles over every few requests, as ``seed`` has it) and warehouse: in the
    hour that it usually packs for, its orders wait for an operator."""
    data = Path(environment["SHOP_DATA"])
    # A household has what its parents have, and of those that are tests the settings.
    usual = {"DJANGO_SETTINGS_MODULE": "config.settings", "SHOP_COOLING_OFF_SECONDS": "0.1"}
    with Household(folder / "logs", {**usual, **environment, **SECRETS}) as household:
        environment = household.environment
        for command in (
            "migrate",
            "load_catalogue",
            f"createsuperuser --noinput --username {USER} --email a@example.com",
        ):
            done = run(
                [sys.executable, "manage.py", *command.split()], cwd=PROJECT, env=environment, capture_output=True
            )
            assert done.returncode == 0, done.stderr.decode()

        def serve(name: str, *arguments: str) -> str:
            ready = folder / f"{name}.url"
            return wait_until_ready(household.start(name, *arguments, "--ready-file", str(ready)), ready)

        ledger, parcels = data / "gateway.jsonl", str(data / "warehouse.jsonl")
        gateway = serve("gateway", "-m", "gateway", "--ledger", str(ledger), "--seed", str(seed))
        environment["SHOP_GATEWAY_URL"] = gateway
        environment["SHOP_WAREHOUSE_URL"] = serve(
            "warehouse", "-m", "warehouse", "--state", parcels, "--pack-seconds", str(pack_seconds)
        )
        environment["SHOP_SITE_URL"] = site = serve("site", "manage.py", "site", "--port", "0")
        household.start("worker", "manage.py", "durable_worker", "--processes", "1")
        yield Shop(site, gateway, ledger)

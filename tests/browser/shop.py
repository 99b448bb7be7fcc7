"""The example's shop as real processes, with a warehouse that packs for an hour: its orders wait for an operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import run

from tests.example.conftest import PROJECT  # isort: skip  (from it on, the example's packages are found)
from demo.processes import Household, wait_until_ready
from loopback.client import get, post

PASSWORD = "for this test only"
ORDER = {
    "number": "W-1",
    "customer": "Ada",
    "email": "ada@example.com",
    "country": "DE",
    "card_token": "tok_4242",
    "lines": [{"sku": "TEA-01-100", "quantity": 1, "unit_price": "9.50"}],
}


@dataclass(frozen=True)
class Shop:
    url: str

    def order(self) -> None:
        """Place the order. Raises AssertionError where the shop will not have it."""
        reply = post(f"{self.url}/api/orders/", ORDER)
        assert reply.status == 201, reply

    def status(self) -> str:
        return str(get(f"{self.url}/api/orders/{ORDER['number']}/").body["status"])


@contextmanager
def shop(environment: Mapping[str, str], folder: Path) -> Iterator[Shop]:
    """Site, worker, gateway (which only stumbles over every few requests) and warehouse."""
    data = Path(environment["SHOP_DATA"])
    with Household(folder / "logs", {**environment, "SHOP_COOLING_OFF_SECONDS": "0.1"}) as household:
        environment = household.environment
        environment["DJANGO_SETTINGS_MODULE"] = "tests.browser.shop_settings"
        environment |= {"DJANGO_SUPERUSER_PASSWORD": PASSWORD}
        for command in (
            "migrate",
            "load_catalogue",
            "createsuperuser --noinput --username admin --email a@example.com",
        ):
            done = run(
                [sys.executable, "manage.py", *command.split()], cwd=PROJECT, env=environment, capture_output=True
            )
            assert done.returncode == 0, done.stderr.decode()

        def serve(name: str, *arguments: str) -> str:
            ready = folder / f"{name}.url"
            return wait_until_ready(household.start(name, *arguments, "--ready-file", str(ready)), ready)

        ledger, parcels = str(data / "gateway.jsonl"), str(data / "warehouse.jsonl")
        environment["SHOP_GATEWAY_URL"] = serve("gateway", "-m", "gateway", "--ledger", ledger, "--seed", "7")
        environment["SHOP_WAREHOUSE_URL"] = serve(
            "warehouse", "-m", "warehouse", "--state", parcels, "--pack-seconds", "3600"
        )
        environment["SHOP_SITE_URL"] = site = serve("site", "manage.py", "site", "--port", "0")
        household.start("worker", "manage.py", "durable_worker", "--processes", "1")
        yield Shop(site)

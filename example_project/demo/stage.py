"""The four kinds of processes that make the shop: gateway, warehouse, site, workers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from demo.processes import Household, Process, wait_until_ready

GATEWAY = "gateway"
LEDGER = "gateway.jsonl"
WAREHOUSE_STATE = "warehouse.jsonl"


@dataclass(frozen=True)
class Pace:
    """Seconds: how long things take on this stage."""

    cooling_off: float
    gateway_latency: float
    gateway_timeout: float
    """After so long the shop stops waiting for the gateway."""
    pack: float
    packing_timeout: float
    close_day: str
    """Cron expression; a sixth field is seconds."""


def gateway_url() -> str:
    """Of the stage on this project's data. Raises FileNotFoundError where there has been none."""
    return _ready_file(settings.DATA_DIR, GATEWAY).read_text()


class Stage:
    """Gateway, warehouse and site, started in this order: each is told the addresses of those before it."""

    def __init__(self, household: Household, data: Path, pace: Pace, *, seed: int, port: int = 0) -> None:
        self._household, self._data = household, data
        self._workers = 0
        household.environment |= {
            "SHOP_DATA": str(data),
            "SHOP_WEBHOOK_TOKEN": settings.SHOP_WEBHOOK_TOKEN,
            "SHOP_COOLING_OFF_SECONDS": str(pace.cooling_off),
            "SHOP_GATEWAY_TIMEOUT_SECONDS": str(pace.gateway_timeout),
            "SHOP_PACKING_SECONDS": str(pace.packing_timeout),
            "SHOP_CLOSE_DAY": pace.close_day,
        }
        self.gateway_url = self._serve(
            GATEWAY, "-m", "gateway", "--ledger", str(self.ledger), "--seed", str(seed),
            "--latency", str(pace.gateway_latency),
        )  # fmt: skip
        household.environment["SHOP_GATEWAY_URL"] = self.gateway_url
        self.warehouse_url = self._serve(
            "warehouse", "-m", "warehouse", "--state", str(data / WAREHOUSE_STATE), "--pack-seconds", str(pace.pack)
        )
        household.environment["SHOP_WAREHOUSE_URL"] = self.warehouse_url
        self.site_url = self._serve("site", "manage.py", "site", "--port", str(port))
        household.environment["SHOP_SITE_URL"] = self.site_url

    @property
    def ledger(self) -> Path:
        return self._data / LEDGER

    def start_worker(self, *options: str) -> Process:
        self._workers += 1
        return self._household.start(f"worker {self._workers}", "manage.py", "durable_worker", *options)

    def _serve(self, name: str, *arguments: str) -> str:
        ready_file = _ready_file(self._data, name)
        ready_file.unlink(missing_ok=True)
        process = self._household.start(name, *arguments, "--ready-file", str(ready_file))
        return wait_until_ready(process, ready_file)


def _ready_file(data: Path, name: str) -> Path:
    return data / f"{name}.url"

"""The demo, act by act."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TextIO

from django.core.management import call_command
from django.db import connections

from demo import observe
from demo.audit import audit
from demo.customers import place_orders
from demo.murder import Strike, strike
from demo.processes import Household, Process
from demo.progress import Progress
from demo.stage import LEDGER, WAREHOUSE_STATE, Pace, Stage
from demo.table import table, took_over
from gateway.faults import FaultPlan
from gateway.ledger import read_ledger
from loopback.client import get
from shop.catalogue import load_catalogue, read_catalogue
from shop.models import Order
from shop.order_file import FiledOrder, read_orders

PACE = Pace(
    cooling_off=1,
    gateway_latency=0.12,
    gateway_timeout=1.5,
    pack=1,
    packing_timeout=60,
    # Every five seconds: the sixth field is seconds.
    close_day="* * * * * */5",
)
WORKFLOWS = ["shop.fulfil_order", "shop.refund"]
LIMIT_SECONDS = 85.0
# What is left over after this is counted as lost, and the counting needs a moment too.
WORK_SECONDS = 72.0


class NotEmpty(Exception):
    def __init__(self) -> None:
        super().__init__("This database has orders already. The demo counts from zero: give it an empty one.")


@dataclass(frozen=True)
class Plan:
    data: Path
    seed: int
    orders: int | None = None
    """Only so many orders of the file."""
    concurrency: int = 8


def perform(plan: Plan, out: TextIO) -> int:
    """Play it all; the exit status is 0 if nothing was charged twice, lost or oversold, and the kill hit something."""
    progress = Progress(out)
    orders = _prepare(plan, progress)
    with Household(plan.data / "logs", {}, limit=LIMIT_SECONDS) as household:
        stage = Stage(household, plan.data, PACE, seed=plan.seed)
        progress.say(f"payment gateway, {FaultPlan(plan.seed)}")
        accepted = place_orders(stage.site_url, orders)
        progress.say(f"{len(accepted)} orders placed over HTTP at {stage.site_url}")
        hit = _work(plan, household, stage, progress)
        counts = get(f"{stage.gateway_url}/counts").body
    progress.say("all processes ended")
    return count_up(accepted, stage.ledger, counts, hit, out)


def _prepare(plan: Plan, progress: Progress) -> list[FiledOrder]:
    orders = read_orders()[: plan.orders]
    _wipe(plan.data)
    call_command("migrate", verbosity=0)
    if Order.objects.exists():
        raise NotEmpty
    rows = read_catalogue()
    load_catalogue(rows)
    progress.say(f"database migrated, {len(rows)} products loaded, {len(orders)} orders read")
    return orders


def _wipe(data: Path) -> None:
    connections.close_all()
    for name in ("db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm", LEDGER, WAREHOUSE_STATE):
        (data / name).unlink(missing_ok=True)
    for name in ("mail", "logs"):
        shutil.rmtree(data / name, ignore_errors=True)


def _work(plan: Plan, household: Household, stage: Stage, progress: Progress) -> Strike | None:
    def start_worker() -> Process:
        worker = stage.start_worker("--concurrency", str(plan.concurrency))
        progress.say(f"{worker.name} started")
        return worker

    workers = [start_worker(), start_worker()]
    _watch(household, progress, _is_under_way)
    hit = _kill_one(household, stage, workers, progress)
    start_worker()
    _watch(household, progress, _is_over)
    progress.say("no run moves any more" if _is_over() else "out of time")
    return hit


def _is_under_way() -> bool:
    return Order.objects.ended().count() * 8 >= Order.objects.count()


def _kill_one(household: Household, stage: Stage, workers: list[Process], progress: Progress) -> Strike | None:
    for worker in cycle(workers):
        if _is_over() or progress.seconds > WORK_SECONDS:
            return None
        household.check()
        hit = strike(household, worker, stage.gateway_url, stage.ledger)
        if hit:
            progress.say(f"kill -9 {worker.name}: {len(hit.leased)} runs on it, {len(hit.in_flight)} of them charging")
            return hit
        time.sleep(0.02)
    return None


def _watch(household: Household, progress: Progress, is_enough: Callable[[], bool]) -> None:
    while not is_enough() and progress.seconds < WORK_SECONDS:
        household.check()
        progress.show(sum(process.name.startswith("worker") for process in household.processes))
        time.sleep(0.25)


def _is_over() -> bool:
    # Not the orders alone: a run goes on after its order has shipped, to mail the receipt.
    return observe.count_unfinished(WORKFLOWS) == 0


def count_up(accepted: list[str], ledger: Path, counts: dict[str, object], hit: Strike | None, out: TextIO) -> int:
    """Write table and findings; the exit status, from rows in the database and lines in the ledger alone."""
    result = audit(accepted, read_ledger(ledger))
    out.write("\n" + table(read_ledger(ledger), counts, hit) + "\n")
    for finding in result.findings:
        out.write(finding + "\n")
    out.write(f"{result}\n")
    return 0 if result.is_clean and hit and took_over(hit) else 1

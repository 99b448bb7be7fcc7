"""Killing a worker at the worst moment: while it waits for the answer to a charge."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from demo import observe
from demo.processes import Household, Process
from gateway.ledger import read_ledger
from loopback.client import get
from shop.models import Order
from shop.workflows import CHARGE

SETTLE_SECONDS = 0.02


@dataclass(frozen=True)
class Strike:
    """What a worker was doing when it died."""

    worker: str
    leased: frozenset[UUID]
    """The runs that it was executing."""
    in_flight: frozenset[UUID]
    """Those of them that were in the middle of a charge: asked for at the gateway, not in the journal."""
    charged: int
    """In how many of these the money had moved already."""


def strike(household: Household, worker: Process, gateway_url: str, ledger: Path) -> Strike | None:
    """Kill the worker with all its processes if a charge of it is in flight; None where none is, and it goes on.

    It is frozen first, so that what is seen is what is killed.
    """
    if not _requests_of(worker, gateway_url):
        return None
    worker.signal_group(signal.SIGSTOP)
    # An answer that was on its way when the worker froze is off the gateway's list by then.
    time.sleep(SETTLE_SECONDS)
    seen = _look(worker, gateway_url, ledger)
    if not seen.in_flight:
        worker.signal_group(signal.SIGCONT)
        return None
    household.bury(worker)
    return seen


def _look(worker: Process, gateway_url: str, ledger: Path) -> Strike:
    leased = observe.leased_by(observe.workers_in_group(worker.group))
    numbers = [request["reference"] for request in _requests_of(worker, gateway_url)]
    orders = Order.objects.filter(number__in=numbers, run_id__in=leased)
    asked = {order.run_id: order.number for order in orders if order.run_id}
    in_flight = asked.keys() - observe.journaled(asked.keys(), CHARGE)
    paid = {entry.reference for entry in read_ledger(ledger) if entry.kind == "charge"}
    return Strike(
        worker=worker.name,
        leased=frozenset(leased),
        in_flight=frozenset(in_flight),
        charged=sum(asked[run] in paid for run in in_flight),
    )


def _requests_of(worker: Process, gateway_url: str) -> list[dict[str, Any]]:
    requests = get(f"{gateway_url}/in-flight").body["requests"]
    return [r for r in requests if r["kind"] == "charge" and observe.is_in_group(r["pid"], worker.group)]

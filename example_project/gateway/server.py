"""The gateway's door: counts requests, lets the planned ones fail, and knows which are in flight."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from gateway.bank import Bank
from gateway.faults import Fault, FaultPlan
from loopback.server import Answer, Call, HangUp, JsonServer


@dataclass(frozen=True)
class Temper:
    """How slow the gateway is, in seconds: each request takes about ``latency``, half of it before and half after
    the money moved; a time-out keeps the caller waiting for ``hold`` and then hangs up."""

    latency: float = 0.1
    hold: float = 30.0


class Gateway:
    def __init__(self, bank: Bank, plan: FaultPlan, temper: Temper) -> None:
        self._bank, self._plan, self._temper = bank, plan, temper
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._timeouts_due = 0
        self._is_broken = False
        self._in_flight: dict[int, dict[str, Any]] = {}

    def serve(self, port: int) -> JsonServer:
        routes = {
            "POST /charges": self.charge,
            "POST /refunds": self.refund,
            "POST /break": self.break_down,
            "POST /repair": self.repair,
            "GET /in-flight": self.in_flight,
            "GET /counts": self.counts,
        }
        return JsonServer(port, routes)

    def charge(self, call: Call) -> Answer:
        with self._request("charge", call) as number:
            if self._unavailable(number):
                return Answer(503, {"error": "try again later"})
            self._wait(number)
            answer = self._bank.charge(key=_key(call), reference=call.body["reference"],
                                       amount=Decimal(call.body["amount"]), card=call.body["card"])  # fmt: skip
            self._count(f"charge {answer.status}")
            if answer.status == 201 and self._takes_timeout():
                self._hang(call)
            self._wait(number)
            return answer

    def refund(self, call: Call) -> Answer:
        with self._request("refund", call) as number:
            if self._unavailable(number):
                return Answer(503, {"error": "try again later"})
            self._wait(number)
            answer = self._bank.refund(key=_key(call), reference=call.body["reference"])
            self._count(f"refund {answer.status}")
            self._wait(number)
            return answer

    def break_down(self, call: Call) -> Answer:
        """From now on 503 to every charge and refund. What is on its way already is answered."""
        self._is_broken = True
        return Answer(200, {"broken": True})

    def repair(self, call: Call) -> Answer:
        """As before: what fails is the plan's again."""
        self._is_broken = False
        return Answer(200, {"broken": False})

    def in_flight(self, call: Call) -> Answer:
        """The charges and refunds whose callers are still waiting, with the process that asked."""
        with self._lock:
            return Answer(200, {"requests": list(self._in_flight.values())})

    def counts(self, call: Call) -> Answer:
        with self._lock:
            return Answer(200, dict(self._counts))

    @contextmanager
    def _request(self, kind: str, call: Call) -> Iterator[int]:
        number = next(self._numbers)
        pid = int(call.headers.get("X-Client-Pid", 0))
        facts = {"kind": kind, "reference": call.body.get("reference"), "pid": pid}
        self._count("requests")
        with self._lock:
            self._in_flight[number] = facts
        try:
            yield number
        finally:
            with self._lock:
                del self._in_flight[number]

    def _unavailable(self, number: int) -> bool:
        # Broken, the plan does not count: its time-outs would otherwise gather, and come all at once after the repair.
        fault = Fault.UNAVAILABLE if self._is_broken else self._plan.fault(number)
        if fault is Fault.TIMEOUT:
            # The request that the plan picked may charge nothing (declined, repeated): the next new charge takes it.
            with self._lock:
                self._timeouts_due += 1
        if fault is not Fault.UNAVAILABLE:
            return False
        self._count("503")
        return True

    def _takes_timeout(self) -> bool:
        with self._lock:
            due = self._timeouts_due > 0
            self._timeouts_due -= due
            return due

    def _hang(self, call: Call) -> None:
        self._count("timeouts")
        until = time.monotonic() + self._temper.hold
        while time.monotonic() < until and not call.caller_left(0.02):
            pass
        raise HangUp

    def _wait(self, number: int) -> None:
        time.sleep(self._temper.latency * Random(f"{self._plan.seed}/latency/{number}").uniform(0.25, 0.75))

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1


def _key(call: Call) -> str:
    key = call.headers.get("Idempotency-Key", "")
    if not key:
        raise ValueError("the Idempotency-Key header is missing")
    return key

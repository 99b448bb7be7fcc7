"""Tables that are being worked on: at no moment do they say what cannot be."""

from __future__ import annotations

import json
import time
from io import StringIO
from itertools import count
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_durable.core.journal.states import TERMINAL
from django_durable.models import Run
from django_durable.store.invariants import liveness
from tests.acceptance.traces import new_gate, open_gate
from tests.app import fanning, faults, limits, workflows
from tests.processes import FAST, Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
SECONDS = 10.0
"""For so long there is new work, or until somebody has looked at it three times."""


@pytest.fixture(autouse=True)
def _impatience(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is queued or due for seven seconds is late."""
    settings.DURABLE = {**settings.DURABLE, "SHUTDOWN_GRACE_SECONDS": 1}
    monkeypatch.setattr(liveness, "SPARE", -30.0)


def check() -> dict[str, dict[str, object]]:
    """What the invariants say; fails where one is violated, or not known."""
    out = StringIO()
    try:
        call_command("durable_check", "--payloads", "--json", "--batch-size", "200", stdout=out)
    except CommandError as error:
        raise AssertionError(out.getvalue()) from error
    found: dict[str, dict[str, object]] = json.loads(out.getvalue())["invariants"]
    return found


def enqueue(number: int) -> None:
    """Steps, children, maps, events, limits, sleeps, failures, atomic steps: something of each."""
    workflows.many_steps.enqueue_many([{"count": 3}] * 10)
    workflows.many_steps_async.enqueue(3)
    workflows.sleepy.enqueue(0.05)
    workflows.failing.enqueue()
    workflows.parent.enqueue(number)
    fanning.whole.enqueue(5)
    limits.one_a_tenant.enqueue_many([{"tenant": str(number % 3)}] * 3)
    limits.three_a_second.enqueue()
    limits.nested.enqueue(2)
    faults.counting.enqueue("all")
    workflows.doubling.using(idempotency_key=str(number)).enqueue(number)
    knocked, sleeping = faults.knocked.enqueue(2), workflows.sleepy.enqueue(60)
    for _ in range(2):
        knocked.send_event("knock", number)
    sleeping.cancel()


def test_no_moment_beside_workers_is_a_violation() -> None:
    gate = new_gate()
    held = limits.one_a_tenant.enqueue("held", gate=gate)
    workers = [
        Worker("--processes", "2", "--concurrency", "8", durable=FAST),
        Worker("--concurrency", "4", durable=FAST),
    ]
    for worker in workers:
        worker.wait_for_start()
    ends = time.monotonic() + SECONDS
    for number in count():
        if time.monotonic() > ends and number >= 3:
            break
        enqueue(number)
        assert check()["I1"]["holds"] is True
        if number == 2:
            workers[1].kill()
            workers.append(Worker("--concurrency", "4", durable=FAST))
    open_gate(gate)

    def are_over() -> bool:
        check()
        return not Run.objects.exclude(status__in=TERMINAL).exists()

    wait_until(are_over, message="all runs to be over")
    assert held.refresh().status == "succeeded"
    assert {name for name, said in check().items() if said["not_looked_at"]} <= {"I21", "L6"}

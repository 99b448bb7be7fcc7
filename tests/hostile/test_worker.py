"""Real worker processes, given what the corpus has: none of them dies of it, and none of their runs hangs."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.client.handle import RunHandle
from django_durable.core.journal.states import LIVE
from django_durable.models import Run
from tests.app.workflows import doubling
from tests.hostile.app.workflows import RAISING, RAISING_ASYNC, making, making_async, raising, raising_async
from tests.hostile.corpus import VALUES
from tests.hostile.ends import all_undefined, undecodable
from tests.hostile.processes import hostile_worker
from tests.invariants import violated
from tests.processes import Worker, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

RAISED = {
    *("str raises", "str exits", "eq raises", "attributes raise", "of a nameless class", "cyclic cause", "group"),
    *("group of what is no Exception", "no Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"),
    *("StopIteration", "StopAsyncIteration", "CancelledError", "connection lost, it says", "forged: undecodable"),
    *("forged: cancelled", "forged: step failed of objects", "retry when nobody knows", "text: all", "10 MB"),
}
"""Each of these takes another way through the code; `test_errors.py` has the others."""
FOR_EVER = ("child", "forged: undecodable")
"""The child is blocked, and its parent waits until somebody resumes it."""
STUMBLED = ("stumbled", "was given up", "what follows", "Task exception was never retrieved", "died worker")


def wait_for_all(runs: dict[Any, RunHandle[Any]], seconds: float = 60.0) -> None:
    wait_until(lambda: not Run.objects.filter(status__in=sorted(LIVE - {"blocked"})).exists(), seconds, "all ends")
    assert all_undefined(runs) == {}
    assert undecodable() == []
    assert violated(settled=60.0) == []


def is_well(worker: Worker) -> None:
    """It is the process that it was, has had nothing to complain of, and works on."""
    assert worker.starts == 1
    assert [line for line in worker.log.splitlines() if any(word in line for word in STUMBLED)] == []
    run = doubling.enqueue(4)
    assert run.result(timeout=10) == 8
    assert worker.stop() == 0


def test_whatever_is_raised_wherever() -> None:
    worker = hostile_worker("--verbosity", "2")
    runs: dict[Any, RunHandle[Any]] = {}
    for what in sorted(RAISED):
        runs |= {(where, what): raising.enqueue(where, what) for where in RAISING if (where, what) != FOR_EVER}
        runs |= {(where, what, "async"): raising_async.enqueue(where, what) for where in RAISING_ASYNC}
    wait_for_all(runs)
    is_well(worker)


def test_whatever_is_made_wherever() -> None:
    worker = hostile_worker()
    runs: dict[Any, RunHandle[Any]] = {}
    for what in sorted(VALUES):
        runs |= {(where, what): making.enqueue(where, what) for where in ("step", "atomic step", "branch", "result")}
        runs |= {(where, what, "async"): making_async.enqueue(where, what) for where in ("step", "branch", "result")}
    wait_for_all(runs)
    is_well(worker)

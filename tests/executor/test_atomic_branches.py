"""Atomic steps in branches: each in a transaction of its own, on the connection of its branch's thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.test import TestCase

from django_durable import Context, Retry, durable_workflow
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.executor.branch_threads import BranchThreads
from django_durable.executor.sync_attempt import run_attempt
from django_durable.store.claiming import Claimant, claim_next
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from tests.app.models import Counter
from tests.direct_commit import DirectCommit

AT_ONCE = Retry(max_attempts=2, initial=0, maximum=0)
NAMES = "abcd"
backends: dict[str, Any] = {}
failures: dict[str, int] = {}
all_are_here = threading.Barrier(len(NAMES))


def write(name: str) -> str:
    """Each fails once after it has written."""
    Counter.objects.create(name=name, value=1)
    failures[name] = failures.get(name, 0) + 1
    if failures[name] == 1:
        raise ValueError("rolled back")
    backends[name] = connection.connection
    return name


def branch(name: str, meets: bool) -> Any:
    def body(ctx: Context) -> str:
        # All threads at once; not in the step itself, since SQLite has one writer.
        ctx.step("meet", lambda: all_are_here.wait(60) * 0 if meets else 0)
        return ctx.step("write", write, name, atomic=True)

    return body


@durable_workflow(name="atomic.branches", step_retry=AT_ONCE)
def writing(ctx: Context, meets: bool) -> Any:
    return ctx.join("all", {name: branch(name, meets) for name in NAMES})


@pytest.fixture(autouse=True)
def _fresh() -> None:
    backends.clear()
    failures.clear()


def check(run: Any) -> None:
    assert run.result(timeout=0) == {name: name for name in NAMES}
    assert sorted(Counter.objects.values_list("name", "value")) == [(name, 1) for name in NAMES]
    attempts = {step.path: step.attempts for step in run.steps() if step.path.endswith("/write")}
    assert attempts == {f"all/{name}/write": 2 for name in NAMES}


@pytest.mark.contract
@pytest.mark.django_db(transaction=True)
def test_each_branch_writes_once_on_a_connection_of_its_own() -> None:
    run = writing.enqueue(True)
    db, pool = Database(), BranchThreads(len(NAMES))
    who = Claimant(uuid7(), ("default",), ("atomic.branches",))
    [claim] = claim_next(db, who, 1, lease=30, time=DatabaseClock())
    run_attempt(claim, writing, DirectCommit(db), pool)
    pool.close()
    check(run.refresh())
    assert len({id(backend) for backend in [*backends.values(), connection.connection]}) == len(NAMES) + 1


@pytest.mark.contract
class OwnTransaction(TestCase):
    def test_without_threads_each_is_a_savepoint_of_the_test_s_transaction(self) -> None:
        run = writing.enqueue(False)
        run_until_idle()
        check(run)
        assert set(backends.values()) == {connection.connection}

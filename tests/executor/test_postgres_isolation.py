"""Atomic steps in projects whose transactions are stricter than READ COMMITTED: a heartbeat must not undo a body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from django_durable import AsyncContext, Context, Retry, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Completed, Outcome
from django_durable.executor.async_attempt import arun_attempt
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import Run
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.slots import Slots
from tests.app.models import Counter
from tests.direct_commit import DirectCommit

pytestmark = pytest.mark.django_db(transaction=True)
ONCE = Retry(max_attempts=1)
DEFAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "repeatable read": ("repeatable read", {"isolation_level": IsolationLevel.REPEATABLE_READ}),
    "serializable": ("serializable", {"isolation_level": IsolationLevel.SERIALIZABLE}),
    "server-side binding": (
        "serializable",
        {"isolation_level": IsolationLevel.SERIALIZABLE, "server_side_binding": True, "prepare_threshold": 1},
    ),
    "the server's own": ("serializable", {"options": "-c default_transaction_isolation=serializable"}),
}
"""What the project's own transactions begin with, and the OPTIONS that make them do so."""
during: list[Callable[[], Any]] = []


@pytest.fixture(params=DEFAULTS)
def isolation(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    level, more = DEFAULTS[request.param]
    options = connection.settings_dict["OPTIONS"]
    before = dict(options)
    options.update(more)
    connection.close()
    yield level
    options.clear()
    options.update(before)
    connection.close()


@pytest.fixture
def engine(isolation: str) -> Iterator[PrivateDatabase]:
    """The connection of a worker's own parts."""
    db = PrivateDatabase()
    yield db
    db.close()


@pytest.fixture(autouse=True)
def _nothing_happens_during() -> None:
    during.clear()


def shown() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        return str(cursor.fetchone()[0])


def count(name: str) -> int:
    counter, _ = Counter.objects.get_or_create(name=name, defaults={"value": 0})
    for meanwhile in during:
        meanwhile()
    counter.value += 1
    counter.save()
    return counter.value


@durable_workflow(name="isolation.counting", step_retry=ONCE)
def counting(ctx: Context) -> list[int]:
    ctx.step("noted", lambda: "kept", ephemeral=True)
    return [ctx.step("count", count, "a", key=turn, atomic=True) for turn in range(2)]


@durable_workflow(name="isolation.counting_async", step_retry=ONCE)
async def counting_async(ctx: AsyncContext) -> list[int]:
    return [await ctx.step("count", count, "a", key=turn, atomic=True) for turn in range(2)]


def attempt(engine: PrivateDatabase, workflow: Any, prepare: Callable[[Claim], None]) -> Outcome:
    who = Claimant(uuid7(), ("default",), (workflow.name,))
    [claim] = claim_next(engine, who, 1, lease=30, time=DatabaseClock())
    prepare(claim)
    run = async_to_sync(arun_attempt) if workflow.is_async else run_attempt
    return run(claim, workflow, DirectCommit(engine))


@pytest.mark.parametrize("workflow", [counting, counting_async])
def test_a_heartbeat_during_the_body_does_not_undo_it(engine: PrivateDatabase, workflow: Any) -> None:
    """On a snapshot from before the renewal the fence could not lock the run: the body would be rolled back."""
    slots = Slots(1)
    renewed: list[bool] = []

    def beat() -> None:
        [lease] = slots.leases()
        before = Run.objects.get(pk=lease.run_id).lease_expires_at, lease.ends
        Heartbeat(engine, slots, lambda db: None).beat()
        after = Run.objects.get(pk=lease.run_id).lease_expires_at, lease.ends
        renewed.append(after[0] > before[0] and after[1] > before[1])

    run: RunHandle[Any] = workflow.enqueue()
    during.append(beat)
    assert isinstance(attempt(engine, workflow, slots.take), Completed)
    assert renewed == [True, True]
    assert run.refresh().result(timeout=0) == [1, 2]
    assert [(step.path, step.attempts) for step in run.steps() if step.path != "noted"] == [
        ("count[0]", 1),
        ("count[1]", 1),
    ]
    assert Counter.objects.get(name="a").value == 2


def test_the_body_alone_is_read_committed(engine: PrivateDatabase, isolation: str) -> None:
    seen: list[str] = []

    def look() -> None:
        with transaction.atomic():
            seen.append(shown())

    @durable_workflow(name="isolation.looking", step_retry=ONCE)
    def looking(ctx: Context) -> None:
        ctx.step("atomic", look, atomic=True)
        ctx.step("own", look)

    looking.enqueue()
    assert isinstance(attempt(engine, looking, lambda claim: None), Completed)
    assert seen == ["read committed", isolation]

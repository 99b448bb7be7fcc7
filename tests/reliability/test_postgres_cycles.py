"""An atomic step and somebody else's transaction that each hold a row which the other one wants."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

import pytest
from django.db import transaction

from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.outcomes import Outcome, Released
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import Run
from django_durable.store.claiming import claim_next
from django_durable.store.database import PrivateDatabase
from django_durable.testing import run_until_idle
from django_durable.worker.committer import Committer
from tests.app.models import Counter
from tests.executor.counting import count, during
from tests.processes import wait_until
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer
from tests.store.rows import claimant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables")]
LEASE = 30


@durable_workflow(name="cycles.counting", step_retry=Retry(max_attempts=1))
def counting(ctx: Context) -> int:
    return ctx.step("count", count, atomic=True)


def cancel_and_change(run_id: UUID) -> None:
    """As a view does that cancels an order: the run first, then the order itself."""
    with transaction.atomic():
        get_run(run_id).cancel("the customer has changed their mind")
        Counter.objects.filter(name="a").update(value=100)


def look_and_change(run_id: UUID) -> None:
    with transaction.atomic():
        Run.objects.select_for_update().get(pk=run_id)
        Counter.objects.filter(name="a").update(value=100)


@pytest.mark.parametrize(
    ("view", "status", "value"), [(cancel_and_change, "cancelled", 100), (look_and_change, "succeeded", 101)]
)
def test_the_step_gives_way_and_is_done_once(
    view: Callable[[UUID], None],
    status: str,
    value: int,
    db: PrivateDatabase,
    threads: Threads,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Counter.objects.create(name="a")
    run = counting.enqueue()
    [claim] = claim_next(db, claimant(counting.name), 1, lease=LEASE, time=DatabaseClock())
    views = []

    def meet() -> None:
        views.append(threads.start(view, run.id))
        watching = connect()
        ask = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        wait_until(lambda: watching.rows(ask)[0][0], message="the view to wait for the step's row")

    began = time.monotonic()
    committer = Committer(connect(), lambda *_: None)
    ends, end = [], Flow.end

    def note(flow: Flow, outcome: Outcome) -> None:
        ends.append((type(outcome), flow.journal.find("count")))
        end(flow, outcome)

    monkeypatch.setattr(Flow, "end", note)
    with during(meet):
        outcome = run_attempt(claim, counting, committer)
    answer(views[0])
    assert type(outcome) is Released
    # Nobody who looks for what this attempt has done finds it.
    assert ends == [(Released, None)]
    assert time.monotonic() - began < LEASE / 3, "they waited until the lease was over"
    committer.close()
    run_until_idle()
    assert (run.status, Counter.objects.get().value) == (status, value)

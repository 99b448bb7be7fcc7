"""Workers whose code differs: what nobody knows is blocked, what somebody knows again is taken up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_durable.models import Run
from tests.acceptance.traces import traces, wait_for_success
from tests.app import faults
from tests.processes import FAST, Worker, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

OLD_CODE = {"DURABLE_TEST_OLD_CODE": "1"}


@pytest.mark.behaviour("RUN-11c")
def test_an_unknown_workflow_is_blocked_and_taken_up_by_code_that_knows_it() -> None:
    run = faults.newcomer.enqueue()
    # Each looks once a lease for what nobody knows, and for what it knows again.
    old = Worker(env=OLD_CODE, durable=FAST)
    old.wait_for_start()
    wait_until(lambda: run.refresh().status == "blocked", message="the run to be blocked")
    # Two leases after it was queued: whoever deploys the web first has that long to deploy a worker.
    assert timezone.now() - run.run.created_at > timedelta(seconds=2 * FAST["LEASE_SECONDS"])
    assert run.run.claims == 0
    assert run.why().reason == "blocked: unknown_workflow"

    new = Worker()
    new.wait_for_start()
    wait_for_success(run.id)
    # While somebody knows the name, the old code leaves such runs alone, and has none of them.
    more = [faults.newcomer.enqueue() for _ in range(20)]
    wait_for_success(*(handle.id for handle in more))
    assert set(Run.objects.values_list("claims", flat=True)) == {1}
    assert old.log.count("reason=unknown_workflow") == 1
    assert new.stop() == old.stop() == 0


def test_a_run_that_today_s_code_cannot_go_on_with_is_taken_up_by_that_of_yesterday() -> None:
    run = faults.changing.enqueue()
    old = Worker(env=OLD_CODE, durable={"VERSION": "yesterday"})
    wait_until(lambda: run.refresh().status == "waiting", message="the run to wait")
    assert old.stop() == 0

    new = Worker(durable={"VERSION": "today"})
    new.wait_for_start()
    run.send_event("go")
    wait_until(lambda: run.refresh().status == "blocked", message="the run to be blocked")
    why = run.why()
    assert why.reason == "blocked: diverged"
    assert "'order' is a step in the journal, but the code now asks for a sleep." in why.text

    assert new.stop() == 0
    assert new.log.count("reason=diverged") == 1

    back = Worker(env=OLD_CODE, durable={"VERSION": "yesterday"})
    wait_for_success(run.id)
    # Nothing was done twice, and today's code has tried it once.
    assert [trace.path for trace in traces(run.id)] == ["order", "last"]
    assert run.refresh().run.claims == 3
    assert back.stop() == 0


def test_a_run_of_before_a_rename_is_claimed_under_its_old_name() -> None:
    run = faults.changing.enqueue()
    Run.objects.filter(pk=run.id).update(workflow="app.changing_of_yesterday")
    worker = Worker()
    run.send_event("go")
    wait_for_success(run.id)
    assert run.refresh().workflow == "app.changing_of_yesterday"
    assert worker.stop() == 0

"""In the last part of a lease that nobody renews nothing new begins; what is done by then may still be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_durable import AsyncContext, Context, durable_workflow
from django_durable.client.handle import RunHandle
from django_durable.conf import Settings, durable_settings
from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.ids import uuid7
from django_durable.core.journal.outcomes import Completed, Lost, Outcome, Released
from django_durable.core.journal.states import Status
from django_durable.executor.async_attempt import arun_attempt
from django_durable.executor.sync_attempt import run_attempt
from django_durable.store.claiming import Claim, Claimant, claim_next
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.recovery import reap
from django_durable.worker.heartbeat import Heartbeat
from django_durable.worker.slots import Slots
from tests.direct_commit import DirectCommit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
Travel = Callable[[float], None]
LEASE = Settings().LEASE_SECONDS
BEAT = Settings().HEARTBEAT_SECONDS
MARGIN = Settings().lease_margin
during: dict[str, Callable[[], Any]] = {}
performed: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    during.clear()
    performed.clear()


def perform(name: str) -> str:
    performed.append(name)
    during.get(name, lambda: None)()
    return name


@durable_workflow(name="margin.two")
def two(ctx: Context) -> list[str]:
    return [ctx.step("first", perform, "first"), ctx.step("second", perform, "second")]


@durable_workflow(name="margin.two_async")
async def two_async(ctx: AsyncContext) -> list[str]:
    return [await ctx.step("first", perform, "first"), await ctx.step("second", perform, "second")]


@durable_workflow(name="margin.two_atomic")
def two_atomic(ctx: Context) -> list[str]:
    return [ctx.step(name, perform, name, atomic=True) for name in ("first", "second")]


ALL = [two, two_async, two_atomic]


def claim(workflow: Any) -> Claim:
    who = Claimant(uuid7(), ("default",), (workflow.name,))
    [claimed] = claim_next(Database(), who, 1, lease=LEASE, time=DatabaseClock())
    return claimed


def attempt(workflow: Any, claimed: Claim) -> Outcome:
    run = async_to_sync(arun_attempt) if workflow.is_async else run_attempt
    return run(claimed, workflow, DirectCommit(Database()))


@pytest.mark.parametrize("workflow", ALL)
def test_within_the_margin_the_run_is_handed_back_with_what_is_done(workflow: Any, travel: Travel) -> None:
    run: RunHandle[Any] = workflow.enqueue()
    during["first"] = lambda: travel(LEASE - MARGIN)
    assert attempt(workflow, claim(workflow)) == Released()
    assert performed == ["first"]
    assert (run.refresh().status, run.attempt) == (Status.QUEUED, 1)
    assert [(step.path, step.status) for step in run.steps()] == [("first", "succeeded")]
    # Whoever claims it next has a whole lease.
    assert isinstance(attempt(workflow, claim(workflow)), Completed)
    assert performed == ["first", "second"]
    assert run.refresh().result(timeout=0) == ["first", "second"]


@pytest.mark.parametrize("workflow", ALL)
def test_before_the_margin_the_next_step_begins(workflow: Any, travel: Travel) -> None:
    run: RunHandle[Any] = workflow.enqueue()
    during["first"] = lambda: travel(LEASE - MARGIN - 5)
    assert isinstance(attempt(workflow, claim(workflow)), Completed)
    assert run.refresh().status == Status.SUCCEEDED


@pytest.mark.parametrize("workflow", ALL)
def test_the_end_of_a_run_is_written_within_the_margin(workflow: Any, travel: Travel) -> None:
    run: RunHandle[Any] = workflow.enqueue()
    during["second"] = lambda: travel(LEASE - MARGIN / 2)
    assert isinstance(attempt(workflow, claim(workflow)), Completed)
    assert run.refresh().status == Status.SUCCEEDED


@pytest.mark.parametrize("workflow", [two, two_async])
def test_a_claim_that_waited_too_long_is_handed_back_before_its_function_is_called(
    workflow: Any, travel: Travel
) -> None:
    run: RunHandle[Any] = workflow.enqueue()
    claimed = claim(workflow)
    travel(LEASE - MARGIN)
    assert attempt(workflow, claimed) == Released()
    assert performed == []
    assert run.refresh().status == Status.QUEUED


def test_nobody_can_have_taken_the_run_when_the_margin_begins(travel: Travel) -> None:
    """Past the real end somebody may: then nothing is written any more."""
    taken: list[int] = []

    def look() -> None:
        travel(LEASE - MARGIN)
        taken.append(len(reap(Database(), 10, lease=LEASE, max_crashes=3)))
        travel(MARGIN + 1)
        taken.append(len(reap(Database(), 10, lease=LEASE, max_crashes=3)))

    run = two.enqueue()
    during["first"] = look
    assert attempt(two, claim(two)) == Lost()
    assert taken == [0, 1]
    assert performed == ["first"]
    assert run.steps() == []


# --- a worker that renews --------------------------------------------------------------------


@durable_workflow(name="margin.long")
def long(ctx: Context) -> int:
    return sum(ctx.step("work", perform, "work", key=turn) == "work" for turn in range(20))


@pytest.mark.parametrize("is_late", [False, True])
def test_who_renews_in_time_never_gets_there(is_late: bool, travel: Travel) -> None:
    """Also where every other beat is missed: the row may be held by somebody at that moment."""
    beats, db, slots = 2 if is_late else 1, PrivateDatabase(), Slots(1)
    heartbeat = Heartbeat(db, slots, lambda db: None)
    long.enqueue()
    claimed = claim(long)
    slots.take(claimed)

    def work() -> None:
        travel(beats * BEAT - 0.001)
        # The tightest moment, just before the beat.
        assert not claimed.lease.ends_within(durable_settings().lease_margin)
        travel(0.001)
        heartbeat.beat()

    during["work"] = work
    try:
        assert isinstance(attempt(long, claimed), Completed)
    finally:
        db.close()
    assert len(performed) == 20


@pytest.mark.parametrize(
    ("lease", "beat"), [(30, 10), (3, 1), (2, 0.5), (600, 60), (0.3, 0.1), (30, 15), (30, 20), (30, 29), (30, 29.9)]
)
def test_the_margin_leaves_room_for_every_beat(
    lease: float, beat: float, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for settings that the checks refuse: beats that are too far apart for a lease."""
    # Only ``travel`` moves it: some of these margins are shorter than a machine that is busy may let us wait.
    monkeypatch.setattr(clock, "monotonic", lambda: clock.offset().total_seconds())
    margin = Settings(LEASE_SECONDS=lease, HEARTBEAT_SECONDS=beat).lease_margin
    assert 0 < margin <= min(lease * 0.2, 5)
    held = Lease(uuid7(), uuid7(), clock.monotonic() + lease)
    travel(beat)
    assert not held.ends_within(margin)
    if lease >= 3 * beat:
        travel(beat)
        assert not held.ends_within(margin)


@pytest.mark.parametrize(("lease", "beat"), [(30, 30), (30, 60)])
def test_beats_that_come_too_late_leave_no_margin(lease: float, beat: float) -> None:
    assert Settings(LEASE_SECONDS=lease, HEARTBEAT_SECONDS=beat).lease_margin == 0

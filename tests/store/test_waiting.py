"""Waiting without lost wake-ups: the interleavings of suspend, wake, promote and sweep, each with its expected end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import timedelta
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal import Entry, NewRun, Write
from django_durable.core.outcomes import Completed, Retried, Suspended
from django_durable.core.states import EntryStatus, Kind, Status
from django_durable.models import Event, JournalEntry, Run
from django_durable.queues.ready import Ready
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claim, claim_next
from django_durable.store.committing import Receipt, write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.starting import start_runs
from tests.store.conftest import Connect
from tests.store.parallel import SECONDS, Hooked, Threads, answer, row_locked, session, wait_until_blocked
from tests.store.rows import (
    LEASE,
    PAST,
    at,
    child_entry,
    claimant,
    entries,
    event_entry,
    fresh,
    journal_row,
    make_run,
    new_run,
    running,
    send,
    sleep_entry,
    status_of,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {"type": "ValueError", "message": "no", "traceback": ""}
FOR_EVENT = Suspended("event:packed")


def suspend(db: Database, claim: Claim, *waits: Any, outcome: Any = FOR_EVENT, **more: Any) -> Receipt:
    return write_batch(db, [(claim.lease, Write(entries(*waits), outcome=outcome, **more))])[claim.run_id]


def send_and_wake(db: Database, run_id: UUID) -> list[Ready]:
    """As ``send_event``: the event is committed, then the run is woken in a transaction of its own."""
    send(run_id)
    return recovery.wake(db, run_id)


def cancel(db: Database, run_id: UUID) -> None:
    transitions.cancel(Database(), [run_id], Verb())


# --- suspend and what comes meanwhile --------------------------------------------------------


FENCE, SUSPENSION = "AS cancelling", "SET status = CASE WHEN"
MOMENTS = [("before", SUSPENSION), ("after", SUSPENSION)]
if settings.BACKEND != "sqlite":  # There the fence is in a transaction that lets nobody else write.
    MOMENTS.insert(0, ("before", FENCE))


@pytest.mark.parametrize("come", [send_and_wake, cancel])
@pytest.mark.parametrize("moment", MOMENTS, ids=" ".join)
def test_no_wake_is_lost_whenever_it_comes(
    connect: Connect, threads: Threads, moment: tuple[str, str], come: Callable[[Database, UUID], object]
):
    """wake.pml on two connections: whatever comes between two statements, the run is queued when both are done."""
    waker, watching, suspending = connect(), connect(), Hooked()
    claim = running(suspending)
    coming: list[Future[object]] = []

    def meanwhile() -> None:
        coming.append(threads.start(come, waker, claim.run_id))
        if FENCE in moment:
            answer(coming[0])
        else:
            # The row is ours: neither may pass by a run that is about to wait.
            wait_until_blocked(watching, session(suspending))
            assert not coming[0].done()

    when, text = moment
    getattr(suspending, when)[text] = meanwhile
    receipt = suspend(suspending, claim, event_entry())
    suspending.close()
    woken = answer(coming[0])
    assert status_of(claim.run_id) == Status.QUEUED
    if come is send_and_wake:
        # One of the two has queued it, and tells the queue.
        told = [receipt.status == Status.QUEUED, woken == [Ready(claim.run_id, "default", 0)]]
        assert sorted(told) == [False, True]


def test_an_event_after_the_suspension_wakes(db: PrivateDatabase, connect: Connect):
    claim = running(db)
    assert suspend(db, claim, event_entry()).status == Status.WAITING
    assert send_and_wake(connect(), claim.run_id) == [Ready(claim.run_id, "default", 0)]
    assert status_of(claim.run_id) == Status.QUEUED
    assert recovery.wake(db, claim.run_id) == []


def test_an_event_before_the_suspension_leaves_no_waiting_run(db: PrivateDatabase):
    claim = running(db)
    assert send_and_wake(db, claim.run_id) == []
    receipt = suspend(db, claim, event_entry())
    assert (receipt.status, receipt.ready) == (Status.QUEUED, [Ready(claim.run_id, "default", 0)])
    assert fresh(claim.run_id).wake_at is None


def test_a_suspension_that_finds_the_row_held_by_a_wake_sees_its_event_in_the_next_batch(
    db: PrivateDatabase, threads: Threads
):
    claim, waker = running(db), Hooked()
    meanwhile: list[Future[Receipt]] = []
    waker.after["WHERE id = %(id)s"] = lambda: meanwhile.append(threads.start(suspend, db, claim, event_entry()))
    if db.dialect.has_writing_ctes:
        waker.before["SET status = 'queued'"] = lambda: answer(meanwhile[0])
    assert send_and_wake(waker, claim.run_id) == []
    waker.close()
    receipt = answer(meanwhile[0])
    if db.dialect.has_writing_ctes:
        assert (receipt.is_held, receipt.is_lost) == (False, False)
        receipt = suspend(db, claim, event_entry())
    assert receipt.status == status_of(claim.run_id) == Status.QUEUED


def test_an_event_of_another_name_or_one_that_is_taken_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    send(claim.run_id, "other")
    taken = send(claim.run_id, "packed")
    receipt = suspend(db, claim, event_entry("packed"), consumed={taken.pk: "earlier"})
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []
    assert send_and_wake(db, claim.run_id) != []


def test_an_event_for_a_wait_that_is_over_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    over = event_entry()
    over.status = EntryStatus.FAILED
    send(claim.run_id)
    assert suspend(db, claim, over, sleep_entry(60)).status == Status.WAITING


def abandoned(entry: Entry) -> Entry:
    """As who suspends leaves a wait that nobody is at any more (tests/executor/test_abandoned_waits.py)."""
    return replace(entry, status=EntryStatus.ABANDONED)


def test_an_event_for_a_wait_that_is_abandoned_is_no_reason(db: PrivateDatabase):
    """Nobody takes it: every later suspension would go straight to queued, for ever."""
    claim = running(db)
    suspend(db, claim, event_entry("packed"))
    assert send_and_wake(db, claim.run_id) != []
    [again] = claim_all(db, claim.run_id)
    outcome = Suspended("sleep:nap", wake_after=60)
    receipt = suspend(db, again, abandoned(event_entry("packed")), sleep_entry(60), outcome=outcome)
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_the_end_of_a_child_that_nobody_waits_for_any_more_is_no_reason(db: PrivateDatabase):
    claim = running(db)
    child = child_of(claim)
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)
    assert recovery.wake(db, claim.run_id) != []
    [again] = claim_all(db, claim.run_id)
    assert suspend(db, again, abandoned(child_entry()), event_entry("packed")).status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_the_event_of_another_run_is_no_reason(db: PrivateDatabase):
    claim, other = running(db), running(db)
    suspend(db, other, event_entry())
    suspend(db, claim, event_entry())
    send(other.run_id)
    assert recovery.wake(db, claim.run_id) == []
    assert [ready.id for ready in recovery.sweep(db, 10)] == [other.run_id]


# --- children --------------------------------------------------------------------------------


def child_of(claim: Claim, path: str = "child", **more: Any) -> NewRun:
    return new_run(parent_id=claim.run_id, parent_path=path, root_id=claim.root_id, **more)


def finish(db: Database, run_id: UUID) -> Receipt:
    [claim] = claim_all(db, run_id)
    return write_batch(db, [(claim.lease, Write(outcome=Completed("1")))])[run_id]


def claim_all(db: Database, *run_ids: UUID) -> list[Claim]:
    who = claimant()
    claims = claim_next(db, who, 100, lease=LEASE, time=DatabaseClock())
    return [claim for claim in claims if claim.run_id in run_ids]


@pytest.mark.parametrize("count", [1, 5])
def test_the_children_of_a_wait_wake_their_parent_once_when_all_are_over(db: PrivateDatabase, count: int):
    claim = running(db)
    children = [child_of(claim) for _ in range(count)]
    receipt = suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    assert receipt.status == Status.WAITING
    assert {ready.id for ready in receipt.ready} == {child.id for child in children}
    woken = []
    claims = claim_all(db, *[child.id for child in children])
    for child in claims:
        assert write_batch(db, [(child.lease, Write(outcome=Completed("1")))])[child.run_id].parent_id == claim.run_id
        woken.append([ready.id for ready in recovery.wake(db, claim.run_id)])
    assert woken == [[]] * (count - 1) + [[claim.run_id]]


def test_children_that_end_in_one_batch_wake_their_parent(db: PrivateDatabase):
    claim = running(db)
    children = [child_of(claim) for _ in range(3)]
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    claims = claim_all(db, *[child.id for child in children])
    receipts = write_batch(db, [(child.lease, Write(outcome=Completed("1"))) for child in claims])
    assert {receipt.parent_id for receipt in receipts.values()} == {claim.run_id}
    assert [recovery.wake(db, claim.run_id) != [] for _ in receipts] == [True, False, False]


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_a_child_that_ended_before_its_parent_waits(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="child")
    assert suspend(db, claim, child_entry(), outcome=Suspended("child:child")).status == Status.QUEUED


@pytest.mark.parametrize("status", sorted(set(Status) - {"succeeded", "failed", "cancelled"}))
def test_a_live_child_keeps_its_parent_waiting(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="child", queue="elsewhere")
    make_run("succeeded", parent_id=claim.run_id, parent_path="another wait")
    assert suspend(db, claim, child_entry(), outcome=Suspended("child:child")).status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_a_live_child_of_another_call_keeps_nobody_waiting(db: PrivateDatabase):
    """One that was started aside, say, or a grandchild at the same path."""
    claim = running(db)
    child = child_of(claim)
    make_run("waiting", parent_id=claim.run_id, parent_path="aside")
    make_run("waiting", parent_id=child.id, parent_path="child")
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)
    assert recovery.wake(db, claim.run_id) == [Ready(claim.run_id, "default", 0)]


def test_two_children_that_end_at_once_cannot_both_leave_their_parent_asleep(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """Each looks at its sibling after its own commit, under the parent's lock: the later one sees both."""
    claim = running(db)
    children = [child_of(claim) for _ in range(2)]
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=children)
    claims = claim_all(db, *[child.id for child in children])
    sessions = [connect() for _ in claims]

    def end(session: PrivateDatabase, child: Claim) -> list[Ready]:
        write_batch(session, [(child.lease, Write(outcome=Completed("1")))])
        return recovery.wake(session, claim.run_id)

    ends = [threads.start(end, session, child) for session, child in zip(sessions, claims, strict=True)]
    woken = [answer(one) for one in ends]
    assert [Ready(claim.run_id, "default", 0)] in woken
    assert status_of(claim.run_id) == Status.QUEUED


# --- the children of a map -------------------------------------------------------------------


def map_entry(path: str = "each") -> Entry:
    return Entry(path, Kind.MAP, EntryStatus.WAITING, seq=1)


def fan_out(db: Database, claim: Claim, count: int, path: str = "each") -> list[Claim]:
    """Start the children of a map, suspend the parent and claim them."""
    children = [child_of(claim, f"{path}[{index}]") for index in range(count)]
    outcome = Suspended(f"map:{path}")
    assert suspend(db, claim, map_entry(path), outcome=outcome, children=children).status == Status.WAITING
    claims = {one.run_id: one for one in claim_all(db, *[child.id for child in children])}
    return [claims[child.id] for child in children]


def end(db: Database, child: Claim) -> list[Ready] | None:
    receipt = write_batch(db, [(child.lease, Write(outcome=Completed("1")))])[child.run_id]
    assert receipt.parent_id is not None
    return recovery.try_wake_parent(db, receipt.parent_id, receipt.parent_path)


@pytest.mark.parametrize("last", [0, 5, 11])
def test_whoever_of_a_map_ends_last_wakes_the_parent_once(db: PrivateDatabase, last: int):
    claim = running(db)
    children = fan_out(db, claim, 12)
    for child in [*children[:last], *children[last + 1 :]]:
        assert end(db, child) == []
    assert status_of(claim.run_id) == Status.WAITING
    assert end(db, children[last]) == [Ready(claim.run_id, "default", 0)]
    assert recovery.try_wake_parent(db, claim.run_id, "each[3]") == []


def test_while_a_sibling_lives_the_parent_is_not_even_looked_at(db: PrivateDatabase, connect: Connect):
    """Its row is neither waited for nor locked: ten thousand children would each write to it."""
    claim, hooked = running(db), Hooked()
    first, second = fan_out(db, claim, 2)
    touched: list[str] = []
    hooked.before["FROM django_durable_run WHERE id ="] = lambda: touched.append("the parent's row")
    assert end(hooked, first) == []
    assert touched == []
    assert end(hooked, second) == [Ready(claim.run_id, "default", 0)]
    assert touched == ["the parent's row"]
    hooked.close()


def test_the_last_two_of_a_map_that_end_together_wake_their_parent_once(
    connect: Connect, threads: Threads, db: PrivateDatabase
):
    """Both have committed before either looks: each sees that it is the last, and the parent's lock decides."""
    claim = running(db)
    sessions = [connect() for _ in range(2)]
    children = fan_out(db, claim, 2)
    committed = Barrier(2)

    def end_together(session: PrivateDatabase, child: Claim) -> list[Ready] | None:
        write_batch(session, [(child.lease, Write(outcome=Completed("1")))])
        committed.wait(SECONDS)
        woken = None
        while woken is None:  # The other holds the row: the notifier hands this to its patient thread.
            woken = recovery.try_wake_parent(session, claim.run_id, "each[0]")
        return woken

    ends = [threads.start(end_together, *one) for one in zip(sessions, children, strict=True)]
    assert sorted(map(len, map(answer, ends))) == [0, 1]
    assert status_of(claim.run_id) == Status.QUEUED


def test_an_end_that_is_not_committed_is_left_to_the_one_who_commits_it(db: PrivateDatabase, connect: Connect):
    """The first sees the other alive, and leaves the parent to it: the later commit sees both."""
    claim, other = running(db), connect()
    first, second = fan_out(db, claim, 2)
    if not db.dialect.has_writing_ctes:
        assert [end(db, first), end(db, second)] == [[], [Ready(claim.run_id, "default", 0)]]
        return
    with other.transaction():
        write_batch(other, [(second.lease, Write(outcome=Completed("1")))])
        assert end(db, first) == []
    assert recovery.try_wake_parent(other, claim.run_id, "each[1]") == [Ready(claim.run_id, "default", 0)]


def test_a_parent_that_suspends_while_its_last_child_ends_is_woken(connect: Connect, threads: Threads):
    """The child sees no sibling and a parent that runs still: it waits for its row instead of passing by."""
    suspending, waker, watching = Hooked(), connect(), connect()
    claim = running(suspending)
    child = child_of(claim, "each[0]")
    write_batch(suspending, [(claim.lease, Write(entries(map_entry()), children=[child]))])
    [started] = claim_all(waker, child.id)
    write_batch(waker, [(started.lease, Write(outcome=Completed("1")))])
    looking: list[Future[list[Ready]]] = []

    def meanwhile() -> None:
        looking.append(threads.start(recovery.wake, waker, claim.run_id))
        wait_until_blocked(watching, session(suspending))
        assert not looking[0].done()

    suspending.before[SUSPENSION] = meanwhile
    assert suspend(suspending, claim, outcome=Suspended("map:each")).status == Status.QUEUED
    assert answer(looking[0]) == []
    suspending.close()


@pytest.mark.parametrize("status", sorted(set(Status) - {"succeeded", "failed", "cancelled"}))
def test_a_live_item_keeps_the_parent_of_a_map_waiting(db: PrivateDatabase, status: str):
    claim = running(db)
    make_run(status, parent_id=claim.run_id, parent_path="each[10]", queue="elsewhere")
    make_run("succeeded", parent_id=claim.run_id, parent_path="each[9]")
    assert suspend(db, claim, map_entry(), outcome=Suspended("map:each")).status == Status.WAITING
    assert recovery.try_wake_parent(db, claim.run_id, "each[9]") == recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


@pytest.mark.parametrize("path", ["each", "eac", "eachother[0]", "Each[0]", "each%5B0%5D", "scope/each[0]"])
def test_children_at_paths_that_only_look_alike_are_no_items_of_the_map(db: PrivateDatabase, path: str):
    claim = running(db)
    make_run("waiting", parent_id=claim.run_id, parent_path=path)
    [item] = fan_out(db, claim, 1)
    assert end(db, item) == [Ready(claim.run_id, "default", 0)]


def test_children_of_calls_with_keys_are_waited_for_one_by_one(db: PrivateDatabase):
    """Their paths look like those of a map's items, and a live one has nothing to do with another's wait."""
    claim = running(db)
    make_run("waiting", parent_id=claim.run_id, parent_path="pack[1]")
    child = child_of(claim, "pack[0]")
    suspend(db, claim, child_entry("pack[0]"), outcome=Suspended("child:pack[0]"), children=[child])
    [started] = claim_all(db, child.id)
    assert end(db, started) == [Ready(claim.run_id, "default", 0)]


def test_the_sweep_wakes_the_parent_whose_last_child_s_process_died(db: PrivateDatabase):
    claim = running(db)
    for child in fan_out(db, claim, 3):
        assert recovery.sweep(db, 10) == []
        write_batch(db, [(child.lease, Write(outcome=Completed("1")))])
    assert recovery.sweep(db, 10) == [Ready(claim.run_id, "default", 0)]


# --- the sweep, for who died before the wake -------------------------------------------------


def leave_event(db: Database, claim: Claim) -> None:
    suspend(db, claim, event_entry())
    send(claim.run_id)


def leave_child(db: Database, claim: Claim) -> None:
    child = child_of(claim)
    suspend(db, claim, child_entry(), outcome=Suspended("child:child"), children=[child])
    finish(db, child.id)


def leave_cancel(db: Database, claim: Claim) -> None:
    suspend(db, claim, sleep_entry(60), outcome=Suspended("sleep:nap", wake_after=60))
    Run.objects.filter(pk=claim.run_id).update(cancel_requested_at=at(PAST))


@pytest.mark.parametrize("leave", [leave_event, leave_child, leave_cancel])
def test_the_sweep_finds_who_overslept(db: PrivateDatabase, leave: Callable[[Database, Claim], None]):
    claim, sleeping = running(db), running(db)
    suspend(db, sleeping, event_entry())
    leave(db, claim)
    assert status_of(claim.run_id) == Status.WAITING
    assert recovery.sweep(db, 10) == [Ready(claim.run_id, "default", 0)]
    assert (status_of(claim.run_id), status_of(sleeping.run_id)) == (Status.QUEUED, Status.WAITING)
    assert recovery.sweep(db, 10) == []


def test_the_sweep_takes_no_more_than_its_limit_and_comes_to_all(db: PrivateDatabase):
    claims = [running(db) for _ in range(5)]
    for claim in claims:
        leave_event(db, claim)
    rounds = [len(recovery.sweep(db, 2)) for _ in range(4)]
    assert rounds == [2, 2, 1, 0]


def test_the_sweep_leaves_a_row_that_somebody_holds_for_its_next_round(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """An open web transaction must not keep everybody else asleep."""
    held, free = running(db), running(db)
    leave_event(db, held)
    leave_event(db, free)
    with row_locked(connect(), held.run_id):
        sweeping = threads.start(recovery.sweep, db, 10)
        if db.dialect.has_writing_ctes:
            assert [ready.id for ready in answer(sweeping)] == [free.run_id]
    woken = [ready.id for ready in answer(sweeping) + recovery.sweep(db, 10)]
    assert sorted(woken) == sorted([held.run_id, free.run_id])


# --- time ------------------------------------------------------------------------------------


@pytest.fixture
def hour(unmoved_clock: None) -> Callable[[float], None]:
    """Moves the database's clock, as the store's SQL sees it, to so many seconds after now."""
    return lambda seconds: clock.set_offset(timedelta(seconds=seconds))


def database_now(db: Database) -> Any:
    return db.dialect.read_instant(db.rows(f"SELECT {db.dialect.now}")[0][0])


@pytest.mark.behaviour("WAIT-01b")
@pytest.mark.parametrize("outcome", [Suspended("sleep:nap", wake_after=3600), Retried(ERROR, 2, 3600)])
def test_a_wait_ends_not_early_and_not_late_by_the_clock_of_the_database(
    db: PrivateDatabase, hour: Callable[[float], None], outcome: Any
):
    claim = running(db)
    # SQLite's clock has milliseconds.
    before = database_now(db) - timedelta(milliseconds=1)
    suspend(db, claim, sleep_entry(3600), outcome=outcome)
    after = database_now(db) + timedelta(milliseconds=1)
    hours = timedelta(seconds=3600)
    assert before + hours <= fresh(claim.run_id).wake_at <= after + hours
    entry = JournalEntry.objects.get()
    assert before + hours <= entry.wake_at <= after + hours
    hour(3590)
    assert recovery.promote(db, 10) == []
    assert claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()) == []
    hour(3601)
    [again] = claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock())
    assert again.journal.now() >= entry.wake_at
    assert again.attempt == (2 if isinstance(outcome, Retried) else 1)


def test_the_clock_of_a_claim_is_never_ahead_of_the_database(db: PrivateDatabase):
    time = DatabaseClock()
    make_run()
    claim_next(db, claimant(), 1, lease=LEASE, time=time)
    known = time.now()
    assert known <= database_now(db) + timedelta(milliseconds=1)
    assert known >= at(-timedelta(minutes=1))


def test_what_has_come_due_is_promoted_oldest_first_and_no_more_than_the_limit(db: PrivateDatabase):
    distances = [timedelta(minutes=-n) for n in range(1, 6)]
    runs = [make_run("waiting" if n % 2 else "scheduled", wake_at=at(d)) for n, d in enumerate(distances)]
    make_run("waiting", wake_at=at(timedelta(minutes=1)))
    make_run("waiting", wake_at=None)
    assert {ready.id for ready in recovery.promote(db, 3)} == {run.pk for run in runs[2:]}
    assert {ready.id for ready in recovery.promote(db, 3)} == {run.pk for run in runs[:2]}
    assert recovery.promote(db, 3) == []
    promoted = fresh(runs[0])
    assert (promoted.wake_at, promoted.waiting_on) == (None, "")


@pytest.mark.parametrize(
    "outcome", [Suspended("sleep:nap", wake_after=3600), Suspended("event:packed"), Retried(ERROR, 2, 3600)]
)
def test_the_deadline_bounds_the_wait(db: PrivateDatabase, outcome: Any):
    deadline = at(timedelta(minutes=10)).replace(microsecond=0)
    claim = running(db, deadline_at=deadline)
    suspend(db, claim, outcome=outcome)
    assert fresh(claim.run_id).wake_at == deadline


def test_a_wait_that_is_shorter_than_the_deadline_is_not_lengthened(db: PrivateDatabase):
    wake_at = at(timedelta(minutes=1)).replace(microsecond=0)
    claim = running(db, deadline_at=at(timedelta(minutes=10)))
    suspend(db, claim, outcome=Suspended("sleep:nap", wake_at=wake_at))
    assert fresh(claim.run_id).wake_at == wake_at


def test_a_wait_without_time_and_deadline_has_none(db: PrivateDatabase):
    claim = running(db)
    suspend(db, claim, event_entry())
    assert fresh(claim.run_id).wake_at is None


@pytest.mark.parametrize("phase", ["on_failure", "compensating"])
def test_the_deadline_does_not_bound_what_comes_after_the_failure(db: PrivateDatabase, phase: str):
    """Else a retry in ``on_failure`` of a run that timed out would be due at once, over and over."""
    claim = running(db, deadline_at=at(PAST), phase=phase)
    suspend(db, claim, outcome=Suspended("retry:%on_failure", wake_after=60))
    assert fresh(claim.run_id).wake_at > at(timedelta(seconds=50))
    assert claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()) == []


@pytest.mark.parametrize("phase", ["on_failure", "compensating"])
def test_a_wait_that_the_failure_cut_short_is_no_reason_to_go_on(db: PrivateDatabase, phase: str):
    """The deadline hit while the run waited for an event: the event comes, and nobody is there to take it."""
    claim = running(db, phase=phase)
    journal_row(fresh(claim.run_id), abandoned(event_entry()))
    send(claim.run_id)
    receipt = suspend(db, claim, step_entry(status=EntryStatus.RETRYING), outcome=Suspended("retry:x", wake_after=60))
    assert receipt.status == Status.WAITING
    assert recovery.wake(db, claim.run_id) == []
    assert recovery.sweep(db, 10) == []


def test_a_suspension_clears_the_run_of_suspicion_and_frees_its_lease(db: PrivateDatabase):
    claim = running(db)
    Run.objects.update(suspect=True, crashes=2)
    suspend(db, claim, event_entry())
    run = fresh(claim.run_id)
    assert (run.suspect, run.crashes, run.lease_token, run.leased_by, run.lease_expires_at) == (
        False,
        0,
        None,
        None,
        None,
    )
    assert run.waiting_on == "event:packed"


def test_events_are_consumed_once_and_only_by_their_run(db: PrivateDatabase):
    claim, other = running(db), running(db)
    mine, theirs = send(claim.run_id), send(other.run_id)
    write_batch(db, [(claim.lease, Write(consumed={mine.pk: "first", theirs.pk: "theft"}))])
    write_batch(db, [(claim.lease, Write(consumed={mine.pk: "second"}))])
    assert {e.pk: e.consumed_by for e in Event.objects.all()} == {mine.pk: "first", theirs.pk: ""}


def test_a_child_run_is_told_apart_from_a_root(db: PrivateDatabase):
    claim = running(db)
    child = child_of(claim)
    start_runs(db, [child])
    assert finish(db, child.id).parent_id == claim.run_id
    assert finish(db, make_run().pk).parent_id is None

"""Races inside one statement: somebody commits between its snapshot and its row lock. PostgreSQL checks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Outcome, Released, Suspended
from django_durable.core.journal.states import Status
from django_durable.queues.ready import Ready
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import claim_ids, claim_next, claim_oldest
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase, Row
from django_durable.store.dialects import DIALECTS
from django_durable.store.pruning import Retention, prune
from django_durable.store.sql.lines import ASLEEP
from tests.commands.rows import a_run
from tests.store.conftest import Connect
from tests.store.parallel import Hooked, Threads, answer, session, wait_until_blocked
from tests.store.rows import (
    LEASE,
    PAST,
    at,
    claim,
    claimant,
    entries,
    event_entry,
    fresh,
    make_run,
    payload,
    running,
    send,
    status_of,
    step_entry,
)
from tests.store.test_log import line, log_of, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables", "patient")]

T = TypeVar("T")
GATE = 20_260_101
IS_DUE = f"WHERE {ASLEEP} AND r.wake_at <="
"""Of the scan that locks; the same statement has looked before where there are sleepers at all."""
BY_ID = "WHERE r.id = %(id)s::uuid"
BY_IDS = f"WHERE r.id {DIALECTS['postgresql'].among_ids('ids')}"


class Gate(Database):
    """Its first statement with ``where`` in it stops at a gate: after it took its snapshot, before it locks a row."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        before, found, after = sql.partition(self._where)
        if found:
            # An InitPlan: worked out when the first row is looked at, which is after the snapshot.
            # Of the same kind, which says how it is sent.
            sql = type(sql)(f"{before}WHERE (SELECT pg_advisory_xact_lock({GATE}) IS NOT NULL) AND {found[6:]}{after}")
        return super().rows(sql, **parameters)


class Gated(Gate, PrivateDatabase):
    pass


@pytest.fixture
def between(connect: Connect, threads: Threads) -> Iterator[Callable[..., Any]]:
    """Runs a call up to the gate, then what comes between, then the rest of the call; what the call returned."""
    keeper, watching = connect(), connect()
    opened: list[Gated] = []

    def drive(where: str, call: Callable[[Database], T], meanwhile: Callable[[], object]) -> T:
        assert where.startswith("WHERE ")
        gated = Gated(where)
        opened.append(gated)
        with keeper.transaction():
            keeper.rows(f"SELECT pg_advisory_xact_lock({GATE})")
            future = threads.start(call, gated)
            wait_until_blocked(watching, session(keeper))
            meanwhile()
            assert not future.done()
        return answer(future)

    yield drive
    for gated in opened:
        gated.close()


def test_a_heartbeat_just_before_the_reap_wins(db: PrivateDatabase, between: Callable[..., Any]):
    [claimed] = claim(db, make_run(), lease=-5)
    taken = between(
        "WHERE r.status = 'running'",
        lambda gated: recovery.reap(gated, 10, lease=LEASE, max_crashes=3),
        lambda: recovery.renew(db, [claimed.lease], lease=LEASE),
    )
    assert taken == []
    assert fresh(claimed.run_id).lease_token == claimed.lease.token
    assert len(recovery.reap(db, 10, lease=LEASE, max_crashes=3)) == 0


def test_a_completion_just_before_the_reap_wins(db: PrivateDatabase, between: Callable[..., Any]):
    [claimed] = claim(db, make_run(), lease=-5)
    taken = between(
        "WHERE r.status = 'running'",
        lambda gated: recovery.reap(gated, 10, lease=LEASE, max_crashes=3),
        lambda: write_batch(db, [(claimed.lease, Write(outcome=Completed("1")))]),
    )
    assert taken == []
    assert status_of(claimed.run_id) == Status.SUCCEEDED


def test_a_reap_just_before_the_fence_wins(db: PrivateDatabase, between: Callable[..., Any]):
    [claimed] = claim(db, make_run(), lease=-5)
    receipts = between(
        "WHERE r.lease_token = i.token",
        lambda gated: write_batch(gated, [(claimed.lease, Write(entries(step_entry()), outcome=Completed("1")))]),
        lambda: recovery.reap(db, 10, lease=LEASE, max_crashes=3),
    )
    assert receipts[claimed.run_id].is_lost
    run = fresh(claimed.run_id)
    assert (run.status, run.journal.count(), payload(run, "output")) == (Status.QUEUED, 0, None)


def test_a_cancellation_between_snapshot_and_fence_wins_over_the_outcome(
    db: PrivateDatabase, between: Callable[..., Any]
):
    claimed = running(db)
    receipts = between(
        "WHERE r.lease_token = i.token",
        lambda gated: write_batch(gated, [(claimed.lease, Write(outcome=Completed("1")))]),
        lambda: transitions.cancel(Database(), [claimed.run_id], Verb()),
    )
    assert receipts[claimed.run_id].status == Status.CANCELLED
    assert receipts[claimed.run_id].cancelling
    assert status_of(claimed.run_id) == Status.CANCELLED


@pytest.mark.parametrize("is_inside", [False, True], ids=["alone", "in the caller's transaction"])
@pytest.mark.parametrize("outcome", [None, Completed("1")])
def test_lines_that_a_branch_stores_between_snapshot_and_fence_cost_none_of_ours(
    db: PrivateDatabase, between: Callable[..., Any], outcome: Outcome | None, is_inside: bool
):
    claimed, other = running(db), running(db)
    where = "WHERE r.lease_token = i.token"
    ours = Write(entries(step_entry("ours")), log=log_of(line("b", 1), line("c", 2)), outcome=outcome)
    others = Write(entries(step_entry("others")), log=log_of(line("x", 3)))

    def send_both(gated: Database) -> Any:
        with transaction.atomic() if is_inside else nullcontext():
            return write_batch(Gate(where) if is_inside else gated, [(claimed.lease, ours), (other.lease, others)])

    branch = Write(entries(step_entry("branch", seq=2)), log=log_of(line("a", 4)))
    receipts = between(where, send_both, lambda: write_batch(db, [(claimed.lease, branch)]))
    assert all(receipt.is_held for receipt in receipts.values())
    assert (stored(claimed.run_id), stored(other.run_id)) == (["a", "b", "c"], ["x"])
    assert sorted(fresh(claimed.run_id).journal.values_list("path", flat=True)) == ["branch", "ours"]
    assert status_of(claimed.run_id) == (Status.RUNNING if outcome is None else Status.SUCCEEDED)


@pytest.mark.parametrize("by", ["id", "ids", "best first", "best of the due", "oldest first"])
def test_a_run_that_another_claims_first_is_left_to_it(db: PrivateDatabase, between: Callable[..., Any], by: str):
    run = make_run(Status.WAITING, wake_at=at(PAST)) if by == "best of the due" else make_run()
    winner = []

    def take(session: Database) -> Any:
        if by == "id":
            return claim_ids(session, claimant(), [run.pk], lease=LEASE, time=DatabaseClock())
        if by == "ids":
            return claim_ids(session, claimant(), [run.pk, uuid4()], lease=LEASE, time=DatabaseClock())
        claim_some = claim_oldest if by == "oldest first" else claim_next
        return claim_some(session, claimant(), 10, lease=LEASE, time=DatabaseClock())

    where = {
        "id": BY_ID,
        "ids": BY_IDS,
        "best first": "WHERE r.status = 'queued'",
        "best of the due": IS_DUE,
        "oldest first": "WHERE r.status = 'queued' AND r.limit_key IS NULL AND r.workflow",
    }[by]
    assert between(where, take, lambda: winner.extend(take(db))) == []
    assert fresh(run).lease_token == winner[0].lease.token
    assert fresh(run).claims == run.claims + 1


def test_a_claim_sees_what_was_journaled_after_its_snapshot(db: PrivateDatabase, between: Callable[..., Any]):
    """A claim that read the journal itself would see an event that is consumed, and wait for it for ever."""
    first = running(db)
    write_batch(db, [(first.lease, Write(entries(event_entry()), outcome=Released()))])
    event = send(first.run_id)

    def another_claims_consumes_and_hands_back() -> None:
        [second] = claim_ids(db, claimant(), [first.run_id], lease=LEASE, time=DatabaseClock())
        write = Write(entries(step_entry("later", seq=2)), consumed={event.pk: "packed"}, outcome=Released())
        write_batch(db, [(second.lease, write)])

    [third] = between(
        BY_ID,
        lambda gated: claim_ids(gated, claimant(), [first.run_id], lease=LEASE, time=DatabaseClock()),
        another_claims_consumes_and_hands_back,
    )
    assert third.claims == 3
    assert set(third.journal.entries) == {"packed", "later"}
    assert third.journal.inbox.take_event(["packed"]) is None


def test_a_first_claim_whose_run_went_on_meanwhile_reads_its_journal(db: PrivateDatabase, between: Callable[..., Any]):
    """At the snapshot nobody had ever claimed it; the claim counts on the newest row."""
    run = make_run()

    def another_claims_and_hands_back() -> None:
        [first] = claim(db, run)
        write_batch(db, [(first.lease, Write(entries(step_entry()), outcome=Released()))])

    [second] = between(
        BY_ID,
        lambda gated: claim_ids(gated, claimant(), [run.pk], lease=LEASE, time=DatabaseClock()),
        another_claims_and_hands_back,
    )
    assert second.claims == 2
    assert set(second.journal.entries) == {"step"}


@pytest.mark.behaviour("RUN-03a")
def test_a_promotion_leaves_a_run_that_was_claimed_meanwhile(db: PrivateDatabase, between: Callable[..., Any]):
    run = make_run(Status.WAITING, wake_at=at(PAST))
    promoted = between(
        IS_DUE,
        lambda gated: recovery.promote(gated, 10),
        lambda: claim_next(db, claimant(), 10, lease=LEASE, time=DatabaseClock()),
    )
    assert promoted == []
    assert status_of(run) == Status.RUNNING


@pytest.mark.behaviour("RUN-03a")
def test_a_promotion_leaves_a_run_that_sleeps_anew(db: PrivateDatabase, between: Callable[..., Any]):
    run = make_run(Status.WAITING, wake_at=at(PAST))

    def wakes_and_sleeps_again() -> None:
        type(run).objects.filter(pk=run.pk).update(wake_at=at(timedelta(hours=1)))

    promoted = between(IS_DUE, lambda gated: recovery.promote(gated, 10), wakes_and_sleeps_again)
    assert promoted == []
    assert status_of(run) == Status.WAITING


def test_a_run_that_is_resumed_between_snapshot_and_lock_is_not_pruned(between: Callable[..., Any]):
    """The look at its tree found it over, and so does the look under the lock, on its snapshot."""
    run = a_run(age=timedelta(days=40), status=Status.FAILED)
    keep = Retention(default=timedelta(days=30).total_seconds(), by_workflow={})
    pruned = between(
        "WHERE r.status IN (",
        lambda gated: prune(gated, 10, keep),
        lambda: transitions.resume(Database(), [run.pk], Verb()),
    )
    assert pruned.runs == 0
    assert status_of(run) == Status.QUEUED


# --- projects whose default is another isolation ---------------------------------------------


SHOWN = "SHOW transaction_isolation"
READ_COMMITTED = [("read committed",)]
PROJECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "repeatable read": ("repeatable read", {"isolation_level": IsolationLevel.REPEATABLE_READ}),
    "serializable": ("serializable", {"isolation_level": IsolationLevel.SERIALIZABLE}),
    "the session's own": ("serializable", {"options": "-c default_transaction_isolation=serializable"}),
    "the database's own": ("serializable", {}),
}
"""What the project's own connections begin their transactions with, and the OPTIONS that make them do so."""


@pytest.fixture(params=PROJECTS)
def isolation(request: pytest.FixtureRequest, transactional_db: None) -> Iterator[str]:
    level, more = PROJECTS[request.param]
    options = connection.settings_dict["OPTIONS"]
    before = dict(options)
    options.update(more)
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    if not more:
        Database().rows(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
    connection.close()
    yield level
    options.clear()
    options.update(before)
    connection.close()
    if not more:
        Database().rows(f"ALTER DATABASE {name} RESET default_transaction_isolation")


def test_a_wake_that_had_to_wait_for_the_row_is_not_refused(isolation: str, connect: Connect, threads: Threads):
    """On its snapshot from before the wait it would fail with a serialization error, and the run would sleep on."""
    suspending, watching = Hooked(), connect()
    claimed = running(suspending)
    waking: list[Future[list[Ready]]] = []

    def send_and_wake() -> list[Ready]:
        send(claimed.run_id)
        return recovery.wake(Database(), claimed.run_id)

    def meanwhile() -> None:
        waking.append(threads.start(send_and_wake))
        wait_until_blocked(watching, session(suspending))

    suspending.after["SET status = CASE WHEN"] = meanwhile
    write = Write(entries(event_entry()), outcome=Suspended("event:packed"))
    assert write_batch(suspending, [(claimed.lease, write)])[claimed.run_id].status == Status.WAITING
    suspending.close()
    assert answer(waking[0]) == [Ready(claimed.run_id, "default", 0)]
    assert status_of(claimed.run_id) == Status.QUEUED


def test_a_wake_does_not_change_what_the_caller_begins_afterwards(isolation: str):
    recovery.wake(Database(), make_run(Status.WAITING).pk)
    with transaction.atomic():
        assert Database().rows(SHOWN) == [(isolation,)]
        recovery.wake(Database(), make_run(Status.WAITING).pk)


def test_the_engines_own_transactions_are_read_committed(isolation: str, db: PrivateDatabase):
    """Statements outside of any too, and after a reconnect."""
    for _ in range(2):
        assert db.rows(SHOWN) == READ_COMMITTED
        for begin in (db.transaction, partial(db.brief_transaction, 1)):
            with begin():
                assert db.rows(SHOWN) == READ_COMMITTED
        assert db.rows(SHOWN) == READ_COMMITTED
        db.close()
    with Database().brief_transaction(1):
        assert Database().rows(SHOWN) == READ_COMMITTED


def test_a_child_is_not_resumed_while_its_parent_journals_its_failure(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    """The check would find nothing, and the parent would fail for a child that goes on."""
    parent = running(db)
    child = make_run(Status.FAILED, parent_id=parent.run_id, parent_path="child")
    child.payloads.create(kind="error", data="{}")
    watching = connect()
    with db.transaction():
        db.rows("SELECT 1 FROM django_durable_run WHERE id = %(id)s FOR NO KEY UPDATE", id=parent.run_id)
        future = threads.start(lambda: transitions.resume(Database(), [child.pk], Verb()))
        wait_until_blocked(watching, session(db))
        db.rows(
            "INSERT INTO django_durable_journalentry (run_id, path, seq, kind, status, attempts, awaits, started_at,"
            " token) VALUES (%(id)s, 'child', 1, 'child', 'failed', 0, '', now(), %(token)s)",
            id=parent.run_id,
            token=parent.lease.token,
        )
    assert answer(future) == []
    assert status_of(child) == Status.FAILED

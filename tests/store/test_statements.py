"""How many statements things cost: counts came out the same in every measurement, times did not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Failed, Outcome, Released, Suspended
from django_durable.models import Run, Tag
from django_durable.store import recovery
from django_durable.store.claiming import Claim, claim_ids, claim_next
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.app.workflows import doubling
from tests.store.rows import LEASE, claim, claimant, entries, event_entry, make_run, new_run, send, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

IS_SQLITE = settings.BACKEND == "sqlite"
ERROR = {"type": "ValueError", "message": "no", "traceback": ""}


def count(db: Database | None, call: Callable[[], Any]) -> tuple[int, int]:
    """Statements with BEGIN and COMMIT, and transactions that were opened for them."""
    on = connection if db is None else db.connection
    with CaptureQueriesContext(on) as captured:
        call()
    sent = [query["sql"].strip() for query in captured.captured_queries]
    return len(sent), sum(sql.startswith("BEGIN") for sql in sent)


def expect(postgres: tuple[int, int], sqlite: tuple[int, int]) -> tuple[int, int]:
    return sqlite if IS_SQLITE else postgres


def test_enqueue():
    doubling.enqueue(number=0)
    assert count(None, lambda: doubling.enqueue(number=1)) == expect((1, 0), (4, 1))


def test_enqueue_many_costs_what_one_costs():
    inputs = [{"number": n} for n in range(100)]
    assert count(None, lambda: doubling.enqueue_many(inputs)) == expect((1, 0), (4, 1))
    assert Run.objects.count() == 100


def test_enqueue_with_tags_and_a_key():
    workflow = doubling.using(tags=["a", "b"], idempotency_key="k")
    # The isolation, the key, the savepoint around the run and its tags, the run, the tags.
    assert count(None, lambda: workflow.enqueue(number=1)) == expect((8, 1), (8, 1))


def ten_runs() -> list[Run]:
    return [make_run() for _ in range(10)]


def test_a_claim_of_fresh_runs_is_one_statement(db: PrivateDatabase):
    runs = ten_runs()
    ids = [run.pk for run in runs]
    claims: list[Claim] = []

    def take() -> None:
        claims.extend(claim_ids(db, claimant(), ids, lease=LEASE, time=DatabaseClock()))

    assert count(db, take) == (1, 0)
    assert len(claims) == 10


def test_a_claim_from_the_database_is_one_statement(db: PrivateDatabase):
    ten_runs()
    who = claimant()
    assert count(db, lambda: claim_next(db, who, 10, lease=LEASE, time=DatabaseClock())) == (1, 0)
    assert Run.objects.filter(status="running").count() == 10


def test_a_claim_of_runs_that_go_on_reads_their_journals_together(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    write_batch(db, [(one.lease, Write(entries(step_entry()), outcome=Released())) for one in claims])
    who = claimant()
    # The claim, the journals (and with them who has made the claims), the events.
    take = partial(claim_next, db, who, 10, lease=LEASE, time=DatabaseClock())
    assert count(db, take) == expect((3, 0), (4, 0))


def test_the_journal_rows_of_many_runs_are_one_statement(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    batch = [(one.lease, Write(entries(step_entry("a"), step_entry("b", seq=2)))) for one in claims]
    # SQLite: BEGIN, the fence, the rows, COMMIT.
    assert count(db, lambda: write_batch(db, batch)) == expect((1, 0), (4, 1))


@pytest.mark.parametrize("outcome", [Completed("1"), Failed(ERROR)])
def test_the_outcomes_of_many_runs_are_one_statement(db: PrivateDatabase, outcome: Outcome):
    claims = claim(db, *ten_runs())
    batch = [(one.lease, Write(entries(step_entry()), progress="{}", outcome=outcome)) for one in claims]
    # SQLite: the payloads and the statuses are one more each.
    assert count(db, lambda: write_batch(db, batch)) == expect((1, 0), (6, 1))
    assert not Run.objects.filter(status="running").exists()


def test_the_suspensions_of_many_runs_are_a_fence_and_a_look(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    batch = [(one.lease, Write(entries(event_entry()), outcome=Suspended("event:packed"))) for one in claims]
    # BEGIN (with its limit), the fence, the rows, the suspensions, COMMIT.
    assert count(db, lambda: write_batch(db, batch)) == (5, 1)


def test_children_and_events_are_three_statements_more(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    batch = []
    for one in claims:
        child = new_run(parent_id=one.run_id, parent_path="c", root_id=one.root_id)
        batch.append((one.lease, Write(entries(step_entry()), [child], {send(one.run_id).pk: "wait"})))
    # BEGIN, the fence, the rows, the events, the children, their inputs, COMMIT.
    assert count(db, lambda: write_batch(db, batch)) == (7, 1)


def test_the_tags_of_all_children_are_one_statement_more(db: PrivateDatabase):
    batch = []
    for one in claim(db, *ten_runs()):
        child = new_run(parent_id=one.run_id, parent_path="c", root_id=one.root_id, tags=("a", "b"))
        batch.append((one.lease, Write(entries(step_entry()), [child])))
    # BEGIN, the fence, the rows, the children, their inputs, their tags, COMMIT.
    assert count(db, lambda: write_batch(db, batch)) == (7, 1)
    assert Tag.objects.count() == 20


def test_who_is_not_held_costs_one_statement_more(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    Run.objects.filter(pk=claims[0].run_id).delete()
    batch = [(one.lease, Write(entries(step_entry()))) for one in claims]
    assert count(db, lambda: write_batch(db, batch)) == expect((2, 0), (5, 1))


def test_the_heartbeat_renews_all_leases_with_one_statement(db: PrivateDatabase):
    claims = claim(db, *ten_runs())
    assert count(db, lambda: recovery.renew(db, [one.lease for one in claims], lease=LEASE)) == (1, 0)


def test_an_idle_worker_asks_with_one_statement_each(db: PrivateDatabase):
    who = claimant()
    assert count(db, lambda: claim_next(db, who, 10, lease=LEASE, time=DatabaseClock())) == (1, 0)
    assert count(db, lambda: recovery.promote(db, 10)) == (1, 0)
    assert count(db, lambda: recovery.sweep(db, 10)) == (1, 0)
    assert count(db, lambda: recovery.reap(db, 10, lease=LEASE, max_crashes=3)) == (1, 0)


def test_a_wake_is_a_lock_and_an_update_in_a_transaction_of_its_own(db: PrivateDatabase):
    run = make_run("waiting")
    assert count(db, lambda: recovery.wake(db, run.pk)) == (4, 1)

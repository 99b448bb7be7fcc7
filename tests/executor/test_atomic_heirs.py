"""Atomic steps whose run went to another worker: what that one has journaled is no sign that ours was committed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection

from django_durable import Context, Retry, durable_workflow
from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Lost
from django_durable.executor import atomic
from django_durable.executor.sync_attempt import run_attempt
from django_durable.executor.transactions import drop_broken_connections
from django_durable.models import JournalEntry, Run
from django_durable.store import recovery
from django_durable.store.claiming import Claim, claim_next
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.direct_commit import DirectCommit
from tests.store.rows import LEASE, PAST, at, claimant, entries, fresh, step_entry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]

went_on: list[object] = []


def break_at_commit() -> int:
    """The body returns, and its transaction ends with an error: constraints of Django's are checked at COMMIT."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO auth_permission (name, codename, content_type_id) VALUES ('x', 'x', -1)")
    return 1


@durable_workflow(name="heirs.counting", step_retry=Retry(max_attempts=1))
def counting(ctx: Context) -> None:
    went_on.append(ctx.step("count", break_at_commit, atomic=True))


def claim(db: Database) -> Claim:
    [claimed] = claim_next(db, claimant(counting.name), 1, lease=LEASE, time=DatabaseClock())
    return claimed


def take_over(db: Database) -> Lease:
    """Another worker's work: the lapsed lease is reaped, the run claimed, the step done."""
    Run.objects.update(lease_expires_at=at(PAST))
    recovery.reap(db, 10, lease=LEASE, max_crashes=3)
    Run.objects.update(suspect=False)
    heir = claim(db).lease
    write_batch(db, [(heir, Write(entries(step_entry("count", 7))))])
    return heir


@pytest.fixture
def before_the_judgement(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """What happens after the failed COMMIT and before the journal is asked what became of it."""

    def arrange(call: Callable[[], object]) -> None:
        def first() -> None:
            call()
            drop_broken_connections()

        monkeypatch.setattr(atomic, "drop_broken_connections", first)

    went_on.clear()
    return arrange


def test_the_entry_of_who_took_over_is_not_taken_for_our_commit(
    before_the_judgement: Callable[[Callable[[], object]], None],
) -> None:
    other, heirs = PrivateDatabase(), list[Lease]()
    before_the_judgement(lambda: heirs.append(take_over(other)))
    counting.enqueue()
    ours = claim(Database())
    outcome = run_attempt(ours, counting, DirectCommit(Database()))
    other.close()
    [heir] = heirs
    assert went_on == [], "the workflow went on with the value of a step that was rolled back"
    assert outcome == Lost()
    entry = JournalEntry.objects.get()
    assert (entry.value, entry.token) == ("7", heir.token)
    assert fresh(ours.run_id).lease_token == heir.token


begun: list[str] = []


@durable_workflow(name="heirs.begins")
def begins(ctx: Context) -> None:
    ctx.step("begin", begun.append, "once", atomic=True)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_body_does_not_begin_where_the_connection_came_after_the_lease(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun.clear()
    begins.enqueue()
    [ours] = claim_next(Database(), claimant(begins.name), 1, lease=LEASE, time=DatabaseClock())
    set_up = atomic._set_up

    def wait(db: Database) -> None:
        set_up(db)
        if is_late:
            ours.lease.ends = clock.monotonic()

    monkeypatch.setattr(atomic, "_set_up", wait)
    outcome = run_attempt(ours, begins, DirectCommit(Database()))
    assert begun == ([] if is_late else ["once"])
    assert (outcome == Lost()) == is_late
    assert JournalEntry.objects.count() == (not is_late)

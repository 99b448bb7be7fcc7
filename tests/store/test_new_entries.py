"""Entries that are new are inserted. Where one is there all the same, a commit was made that nobody was told of: sent
again it is what it was."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from django.db import transaction

from django_durable.core.journal.journal import Entry, MemoryJournal, Write
from django_durable.core.journal.outcomes import Completed
from django_durable.core.journal.states import EntryStatus
from django_durable.models import JournalEntry
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.store.conftest import Connect
from tests.store.rows import claim, entries, make_run, running, stale, status_of, step_entry

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True)]


def new(entry: Entry) -> Entry:
    return replace(entry, is_new=True)


def values(run_id: UUID) -> list[tuple[str, str | None, str]]:
    rows = JournalEntry.objects.filter(run_id=run_id).order_by("path")
    return [(row.path, row.value, row.status) for row in rows]


def test_a_journal_knows_which_it_had_not() -> None:
    journal = MemoryJournal({"known": step_entry("known")})
    first, known = step_entry("first"), step_entry("known")
    journal.add(first)
    journal.add(known)
    assert (first.is_new, known.is_new) == (True, False)
    # Whether the first one was stored meanwhile is not its business.
    second = replace(first, status=EntryStatus.SUCCEEDED)
    journal.add(second)
    assert not second.is_new
    assert first == second


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("ends", [False, True])
def test_a_commit_that_was_not_answered_is_sent_again(db: PrivateDatabase, count: int, ends: bool) -> None:
    claims = claim(db, *(make_run() for _ in range(count)))
    made = [(one.lease, Write(entries(new(step_entry())))) for one in claims]
    write_batch(db, made[:1])
    for _, write in made:
        write.entries |= entries(new(step_entry("more", 2, 2)))
        write.outcome = Completed("3") if ends else None
    receipts = write_batch(db, made)
    assert all(receipts[one.run_id].is_held for one in claims)
    for one in claims:
        assert values(one.run_id) == [("more", "2", "succeeded"), ("step", "1", "succeeded")]
        assert status_of(one.run_id) == ("succeeded" if ends else "running")


def test_who_has_lost_its_lease_stores_none(db: PrivateDatabase) -> None:
    [mine, theirs] = claim(db, make_run(), make_run())
    writes = [(one, Write(entries(new(step_entry())))) for one in (stale(mine.lease), theirs.lease)]
    receipts = write_batch(db, writes)
    assert receipts[mine.run_id].is_lost
    assert receipts[theirs.run_id].is_held
    assert (len(values(mine.run_id)), len(values(theirs.run_id))) == (0, 1)


def test_one_that_is_known_is_written_over(db: PrivateDatabase) -> None:
    claimed = running(db)
    for value in (1, 2):
        entry = replace(step_entry(value=value), is_new=value == 1)
        write_batch(db, [(claimed.lease, Write(entries(entry)))])
    assert values(claimed.run_id) == [("step", "2", "succeeded")]


def test_in_the_caller_s_transaction_nothing_fails(connect: Connect) -> None:
    """That of an atomic step, which has written there before."""
    claimed = running(connect())
    write = Write(entries(new(step_entry())))
    write_batch(connect(), [(claimed.lease, write)])
    with transaction.atomic():
        make_run(workflow="of the step")
        assert write_batch(Database(), [(claimed.lease, write)])[claimed.run_id].is_held
    assert values(claimed.run_id) == [("step", "1", "succeeded")]

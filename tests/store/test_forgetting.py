"""Turns that are over leave the journal with the commit of what came after them."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.test.utils import CaptureQueriesContext

from django_durable.core.flow.lease import Lease
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed
from django_durable.models import JournalEntry
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from tests.store.rows import claim, entries, make_run, running, stale, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

IS_POSTGRES = settings.BACKEND.startswith("postgres")


def journaled(lease: Lease) -> dict[str, Any]:
    return dict(JournalEntry.objects.filter(run_id=lease.run_id).values_list("path", "value"))


def turn(number: int, *forgotten: str, **more: Any) -> Write:
    path = f"loop[{number}]/step"
    return Write(entries(step_entry(path, seq=number, value=number)), forgotten=frozenset(forgotten), **more)


@pytest.mark.parametrize("is_private", [True, False], ids=["private", "django"])
@pytest.mark.parametrize("count", [1, 3], ids=["alone", "in company"])
def test_what_is_forgotten_goes_with_what_is_written(db: PrivateDatabase, count: int, is_private: bool) -> None:
    store = db if is_private else Database()
    claims = claim(db, *(make_run() for _ in range(count)))
    for number in range(3):
        write_batch(db, [(one.lease, turn(number)) for one in claims])
    # The first has its own turns to forget: of the others there is nothing by these paths.
    forgotten = ("loop[0]/step", "loop[1]/step", "loop[9]/step")
    writes = [(one.lease, turn(3, *(forgotten if one is claims[0] else ()))) for one in claims]
    with CaptureQueriesContext(store.connection) as captured:
        receipts = write_batch(store, writes)
    assert all(receipts[one.run_id].is_held for one in claims)
    first, *others = (journaled(one.lease) for one in claims)
    assert first == {"loop[2]/step": "2", "loop[3]/step": "3"}
    assert others == [{f"loop[{number}]/step": str(number) for number in range(4)}] * (count - 1)
    assert not IS_POSTGRES or len(captured) == 1


def test_an_end_takes_the_last_turns_along(db: PrivateDatabase) -> None:
    one = running(db)
    write_batch(db, [(one.lease, turn(0))])
    receipts = write_batch(db, [(one.lease, turn(1, "loop[0]/step", outcome=Completed('"over"')))])
    assert receipts[one.run_id].status == "succeeded"
    assert journaled(one.lease) == {"loop[1]/step": "1"}


def test_who_does_not_hold_the_run_forgets_nothing_of_it(db: PrivateDatabase) -> None:
    one = running(db)
    write_batch(db, [(one.lease, turn(0))])
    assert write_batch(db, [(stale(one.lease), turn(1, "loop[0]/step"))])[one.run_id].is_lost
    assert journaled(one.lease) == {"loop[0]/step": "0"}


def test_what_takes_the_place_of_what_is_forgotten_stays(db: PrivateDatabase) -> None:
    """Two lines of a run in one write: what one of them prunes the other has begun anew. Of two changes of a row in one
    statement PostgreSQL makes one, and does not say which."""
    one = running(db)
    write_batch(db, [(one.lease, turn(0))])
    anew = step_entry("loop[0]/step", seq=5, value=7)
    write = Write(entries(anew), forgotten=frozenset({"loop[0]/step"}))
    with CaptureQueriesContext(db.connection) as captured:
        assert write_batch(db, [(one.lease, write)])[one.run_id].is_held
    assert len(captured) > 1
    assert journaled(one.lease) == {"loop[0]/step": "7"}
    assert JournalEntry.objects.get(run_id=one.run_id).seq == 5


def test_what_is_forgotten_twice_is_no_failure(db: PrivateDatabase) -> None:
    """The answer to the first commit was lost."""
    one = running(db)
    write_batch(db, [(one.lease, turn(0))])
    for _ in range(2):
        assert write_batch(db, [(one.lease, turn(1, "loop[0]/step"))])[one.run_id].is_held
    assert journaled(one.lease) == {"loop[1]/step": "1"}

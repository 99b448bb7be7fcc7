"""Children of branches that lost a race: noted in the commit that makes them unwanted, cancelled whoever dies."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed
from django_durable.core.journal.states import EntryStatus, PayloadKind, Status
from django_durable.models import Payload, Run
from django_durable.queues.database import DatabaseQueue
from django_durable.store import unwanted
from django_durable.store.claiming import Claim
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.worker.loops.unwanted import Unwanted
from tests.store.rows import PAST, at, child_entry, entries, fresh, journal_row, make_run, payload, running, status_of

pytestmark = pytest.mark.django_db(transaction=True)


def lose(db: Database, claim: Claim, *paths: str) -> None:
    """Commit that the branches which had started these lost their race. Whoever did so dies right after it."""
    lost = [child_entry(path) for path in paths]
    for entry in lost:
        entry.status = EntryStatus.ABANDONED
    write_batch(db, [(claim.lease, Write(entries(*lost), unwanted=list(paths)))])


def child(claim: Claim, path: str, status: str = Status.WAITING, **more: object) -> Run:
    return make_run(status, parent_id=claim.run_id, parent_path=path, **more)


def sweep(db: Database) -> int:
    return Unwanted(db, DatabaseQueue()).tick()


def note_of(claim: Claim) -> str | None:
    return payload(claim.run_id, PayloadKind.UNWANTED)


def test_the_sweep_cancels_what_a_dead_process_left(db: PrivateDatabase):
    claim = running(db)
    waiting, fresh_one, running_one = (
        child(claim, "any/slow/one"),
        child(claim, "any/slow/two[0]", Status.QUEUED),
        child(claim, "any/slow/two[1]", Status.RUNNING),
    )
    lose(db, claim, "any/slow/one", "any/slow/two")
    assert sweep(db) == 1
    assert [status_of(one) for one in (waiting, fresh_one, running_one)] == ["queued", "cancelled", "running"]
    assert fresh(running_one).cancel_requested_at is not None
    assert fresh(waiting).audit.get().reason == "its branch lost a race"
    assert note_of(claim) is None
    assert sweep(db) == 0


def test_also_where_the_parent_is_over_by_then(db: PrivateDatabase):
    claim = running(db)
    left = child(claim, "any/slow/one")
    lose(db, claim, "any/slow/one")
    write_batch(db, [(claim.lease, Write(outcome=Completed("1")))])
    assert sweep(db) == 1
    assert status_of(left) == Status.QUEUED


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("any/quick/one", {}),
        ("any/slow/one", {"detached": True}),
        ("any/slow/one/two", {}),
        ("any/slow/oneself", {}),
        ("ANY/slow/one[0]", {}),
        ("any/slow/one", {"cancel_requested_at": at(PAST)}),
    ],
    ids=["winner", "detached", "deeper", "longer", "another case", "asked to stop"],
)
def test_others_live_on(db: PrivateDatabase, path: str, more: dict[str, object]):
    claim = running(db)
    other = child(claim, path, **more)
    stranger = make_run(Status.WAITING, parent_path="any/slow/one")
    lose(db, claim, "any/slow/one")
    assert sweep(db) == 0
    assert (status_of(other), status_of(stranger), note_of(claim)) == ("waiting", "waiting", None)


def test_a_wait_that_changed_code_passes_by_is_not_lost(db: PrivateDatabase):
    """The code may come back to it (a rolling deploy does), and wants its child then."""
    claim = running(db)
    passed_by = child(claim, "child")
    journal_row(fresh(claim.run_id), child_entry())
    fresh(claim.run_id).journal.update(status=EntryStatus.ABANDONED)
    assert sweep(db) == 0
    assert status_of(passed_by) == Status.WAITING


def test_a_second_race_adds_to_what_is_left_of_the_first(db: PrivateDatabase):
    claim = running(db)
    first, second = child(claim, "one/slow/child"), child(claim, "two/slow/child")
    lose(db, claim, "one/slow/child")
    lose(db, claim, "two/slow/child")
    # Somebody who knows of the second alone must not take the note of both away.
    unwanted.cancel_unwanted(Database(), claim.run_id, ["two/slow/child"])
    assert (status_of(first), status_of(second)) == ("waiting", "queued")
    assert sweep(db) == 1
    assert (status_of(first), note_of(claim)) == ("queued", None)


def test_thousands_are_cancelled_some_at_a_time(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unwanted, "BATCH", 4)
    claim = running(db)
    left = [child(claim, f"any/slow/each[{index}]") for index in range(10)]
    lose(db, claim, "any/slow/each")
    with CaptureQueriesContext(connection) as queries:
        assert sweep(db) == 10
    assert {status_of(one) for one in left} == {Status.QUEUED}
    locks = [query["sql"] for query in queries if query["sql"].startswith("SELECT") and "FOR NO KEY" in query["sql"]]
    assert len(locks) == (6 if db.dialect.has_writing_ctes else 0)


def test_the_note_is_committed_with_what_makes_them_unwanted(db: PrivateDatabase):
    claim = running(db)
    lose(db, claim, "any/slow/one", "any/slow/two")
    assert note_of(claim) == "any/slow/one\nany/slow/two"
    assert Payload.objects.filter(kind=PayloadKind.UNWANTED).count() == 1

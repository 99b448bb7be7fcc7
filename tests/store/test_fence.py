"""The fence: who does not hold the run's token writes nothing of it, and keeps nobody else from writing."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Failed, Suspended
from django_durable.core.journal.states import EntryStatus, Status
from django_durable.models import Event, JournalEntry, Payload, Run, Tag
from django_durable.queues.ready import Ready
from django_durable.store import recovery, transitions
from django_durable.store.auditing import Verb
from django_durable.store.claiming import claim_ids
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.receipts import Receipt
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer, row_locked
from tests.store.rows import (
    LEASE,
    REFUSED_SEQ,
    Refused,
    claim,
    claimant,
    entries,
    fresh,
    make_run,
    new_run,
    payload,
    row_of,
    running,
    send,
    stale,
    status_of,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = {"type": "ValueError", "message": "no", "traceback": ""}


def everything(run: Run, event: Event | None = None, outcome: object = Completed('"done"')) -> Write:
    """All that one commit can carry."""
    return Write(
        entries=entries(step_entry("one"), step_entry("two", seq=2)),
        children=[new_run(parent_id=run.pk, parent_path="child", root_id=run.pk, tags=("red", "blue"))],
        consumed={} if event is None else {event.pk: "wait"},
        progress="{}",
        outcome=outcome,  # type: ignore[arg-type]
    )


def count_rows() -> dict[str, int]:
    return {model.__name__: model.objects.count() for model in (Run, JournalEntry, Payload, Event, Tag)}


@pytest.mark.behaviour("RUN-17a")
@pytest.mark.parametrize("is_private", [True, False], ids=["private", "django"])
@pytest.mark.parametrize("kind", ["everything", "one statement"])
def test_a_stale_token_writes_nothing_and_the_rest_of_the_batch_is_written(
    db: PrivateDatabase, kind: str, is_private: bool
):
    runs = [make_run() for _ in range(3)]
    first, robbed, last = claim(db, *runs)
    events = [send(run.pk) for run in runs]
    before, counted = row_of(robbed.run_id), count_rows()

    def write(position: int) -> Write:
        if kind == "everything":
            return everything(runs[position], events[position])
        return Write(entries(step_entry("one"), step_entry("two", seq=2)), progress="{}", outcome=Completed('"done"'))

    leases = [first.lease, stale(robbed.lease), last.lease]
    batch = [(lease, write(position)) for position, lease in enumerate(leases)]
    receipts = write_batch(db if is_private else Database(), batch)

    assert receipts[robbed.run_id] == Receipt(is_lost=True)
    assert row_of(robbed.run_id) == before
    assert not JournalEntry.objects.filter(run_id=robbed.run_id).exists()
    assert not Run.objects.filter(parent_id=robbed.run_id).exists()
    assert [p.kind for p in Payload.objects.filter(run_id=robbed.run_id)] == ["input"]
    assert Event.objects.get(run_id=robbed.run_id).consumed_at is None

    children = 1 if kind == "everything" else 0
    for written in (first, last):
        assert receipts[written.run_id].is_held
        assert status_of(written.run_id) == Status.SUCCEEDED
        assert payload(written.run_id, "output") == '"done"'
        assert JournalEntry.objects.filter(run_id=written.run_id, token=written.lease.token).count() == 2
        assert Run.objects.filter(parent_id=written.run_id).count() == children
        assert Event.objects.filter(run_id=written.run_id, consumed_by="wait").count() == children
    grown = {"Run": 2 * children, "JournalEntry": 4, "Payload": 2 * (2 + children), "Event": 0, "Tag": 4 * children}
    assert count_rows() == {name: counted[name] + grown[name] for name in counted}


@pytest.mark.parametrize("outcome", [Suspended("sleep:nap", wake_after=60), Failed(ERROR), None])
def test_a_lease_that_was_reaped_and_claimed_again_is_no_right_to_write(db: PrivateDatabase, outcome: object):
    """The frozen worker thaws: by now the run is another worker's."""
    run = make_run()
    [frozen] = claim(db, run, lease=-1)
    assert [taken.status for taken in recovery.reap(db, 10, lease=LEASE, max_crashes=3)] == [Status.QUEUED]
    Run.objects.update(suspect=False)
    [heir] = claim(db, run)
    before = row_of(run)
    receipts = write_batch(db, [(frozen.lease, Write(entries(step_entry()), outcome=outcome))])  # type: ignore[arg-type]
    assert receipts[run.pk] == Receipt(is_lost=True)
    assert row_of(run) == before
    assert write_batch(db, [(heir.lease, Write(outcome=Completed("1")))])[run.pk].status == Status.SUCCEEDED


def test_a_run_that_is_gone_is_lost(db: PrivateDatabase):
    claimed = running(db)
    Run.objects.all().delete()
    assert write_batch(db, [(claimed.lease, Write(entries(step_entry())))])[claimed.run_id].is_lost
    assert not JournalEntry.objects.exists()


def test_every_entry_of_one_run_in_one_batch_lands(db: PrivateDatabase):
    """Branches: a join the other way round would keep one row for each run and lose the others silently."""
    claims = claim(db, *[make_run() for _ in range(2)])
    branches = [step_entry(f"branch{n}", n, seq=n + 1) for n in range(20)]
    write_batch(db, [(claimed.lease, Write(entries(*branches))) for claimed in claims])
    for claimed in claims:
        rows = JournalEntry.objects.filter(run_id=claimed.run_id).order_by("seq")
        assert [(row.path, row.value, row.seq) for row in rows] == [(b.path, b.value, b.seq) for b in branches]


def test_a_batch_that_is_sent_again_changes_nothing(db: PrivateDatabase):
    """As after a lost connection, when nobody knows whether the commit came through."""
    claimed = running(db)
    event = send(claimed.run_id)
    write = everything(fresh(claimed.run_id), event, outcome=None)
    write_batch(db, [(claimed.lease, write)])
    counted = count_rows()
    journal = list(JournalEntry.objects.order_by("path").values_list("path", "seq", "value", "token", "attempts"))
    consumed_at = Event.objects.get().consumed_at
    again = write_batch(db, [(claimed.lease, write)])
    assert again[claimed.run_id].is_held
    assert count_rows() == counted
    assert Event.objects.get().consumed_at == consumed_at
    rows = JournalEntry.objects.order_by("path").values_list("path", "seq", "value", "token", "attempts")
    assert list(rows) == journal


def test_an_outcome_that_is_sent_again_is_lost_and_the_first_one_stands(db: PrivateDatabase):
    claimed = running(db)
    write_batch(db, [(claimed.lease, Write(outcome=Completed('"first"')))])
    again = write_batch(db, [(claimed.lease, Write(outcome=Completed('"second"')))])
    assert again[claimed.run_id] == Receipt(is_lost=True)
    assert payload(claimed.run_id, "output") == '"first"'


def test_a_later_entry_replaces_an_earlier_one_at_its_path(db: PrivateDatabase):
    claimed = running(db)
    retrying = step_entry(status=EntryStatus.RETRYING)
    write_batch(db, [(claimed.lease, Write(entries(retrying)))])
    assert JournalEntry.objects.get().finished_at is None
    write_batch(db, [(claimed.lease, Write(entries(step_entry(value=2))))])
    entry = JournalEntry.objects.get()
    assert (entry.status, entry.value, entry.seq) == ("succeeded", "2", 1)
    assert entry.finished_at is not None
    finished_at = entry.finished_at
    write_batch(db, [(claimed.lease, Write(entries(step_entry(value=2, undo=True))))])
    entry.refresh_from_db()
    assert (entry.undo, entry.finished_at) == (True, finished_at), "it finished when it did"


def test_a_row_that_somebody_holds_goes_into_the_next_batch(db: PrivateDatabase, connect: Connect, threads: Threads):
    """Neither held nor lost: an open web transaction may be about to cancel it, or merely look at it."""
    free, busy = claim(db, make_run(), make_run())
    batch = [(claimed.lease, Write(entries(step_entry()), outcome=Completed("1"))) for claimed in (free, busy)]
    visitor = connect()
    with row_locked(visitor, busy.run_id):
        # SQLite has one lock for all: the whole batch waits there.
        sending = threads.start(write_batch, db, batch)
        if db.dialect.has_writing_ctes:
            receipts = answer(sending)
            assert receipts[busy.run_id] == Receipt(is_held=False, is_lost=False)
            assert receipts[free.run_id].status == Status.SUCCEEDED
            assert not JournalEntry.objects.filter(run_id=busy.run_id).exists()
            assert status_of(busy.run_id) == Status.RUNNING
    later = write_batch(db, batch[1:]) if db.dialect.has_writing_ctes else answer(sending)
    assert later[busy.run_id].status == Status.SUCCEEDED
    assert JournalEntry.objects.filter(run_id=busy.run_id).count() == 1


def test_a_row_that_somebody_holds_is_not_renewed_and_is_not_lost(
    db: PrivateDatabase, connect: Connect, threads: Threads
):
    free, busy = claim(db, make_run(), make_run())
    leases = [free.lease, busy.lease]
    with row_locked(connect(), busy.run_id):
        renewing = threads.start(recovery.renew, db, leases, lease=LEASE)
        if db.dialect.has_writing_ctes:
            assert set(answer(renewing)) == {free.lease.token}
    assert answer(renewing)
    assert set(recovery.renew(db, leases, lease=LEASE)) == {free.lease.token, busy.lease.token}


@pytest.mark.behaviour("RUN-17b")
def test_the_cancellation_that_came_first_wins_and_the_result_is_kept(db: PrivateDatabase):
    claimed = running(db)
    transitions.cancel(Database(), [claimed.run_id], Verb())
    receipt = write_batch(db, [(claimed.lease, Write(outcome=Completed('"done"')))])[claimed.run_id]
    assert (receipt.is_held, receipt.cancelling, receipt.status) == (True, True, Status.CANCELLED)
    assert status_of(claimed.run_id) == Status.CANCELLED
    assert payload(claimed.run_id, "output") == '"done"'


@pytest.mark.behaviour("CANCEL-01e")
def test_the_completion_that_came_first_wins(db: PrivateDatabase):
    claimed = running(db)
    write_batch(db, [(claimed.lease, Write(outcome=Completed('"done"')))])
    before = row_of(claimed.run_id)
    done = transitions.cancel(Database(), [claimed.run_id], Verb())
    assert (done.ended, done.queued) == ([], [])
    assert row_of(claimed.run_id) == before


def test_a_write_without_an_outcome_tells_of_the_cancellation(db: PrivateDatabase):
    claimed = running(db)
    assert not write_batch(db, [(claimed.lease, Write(entries(step_entry())))])[claimed.run_id].cancelling
    transitions.cancel(Database(), [claimed.run_id], Verb())
    receipt = write_batch(db, [(claimed.lease, Write(entries(step_entry())))])[claimed.run_id]
    assert (receipt.cancelling, receipt.status) == (True, None)


def test_a_failing_batch_stores_nothing(db: PrivateDatabase):
    """One bad value fails the whole batch; the committer splits it and finds the culprit."""
    good, bad = claim(db, make_run(), make_run())
    before = row_of(good.run_id)
    batch = [(good.lease, everything(fresh(good.run_id))), (bad.lease, Write(entries(step_entry(seq=REFUSED_SEQ))))]
    with pytest.raises(Refused):
        write_batch(db, batch)
    assert row_of(good.run_id) == before
    assert not JournalEntry.objects.exists()
    assert write_batch(db, batch[:1])[good.run_id].status == Status.SUCCEEDED


def test_children_of_a_write_are_started_with_their_input(db: PrivateDatabase):
    claimed = running(db)
    now = new_run(
        parent_id=claimed.run_id, parent_path="now", root_id=claimed.root_id, input="[1]", queue="q", priority=7
    )
    later = new_run(parent_id=claimed.run_id, parent_path="later", root_id=claimed.root_id, run_after=60.0)
    receipt = write_batch(db, [(claimed.lease, Write(children=[now, later]))])[claimed.run_id]
    assert receipt.ready == [Ready(now.id, "q", 7)]
    assert [status_of(child.id) for child in (now, later)] == [Status.QUEUED, Status.SCHEDULED]
    assert fresh(now.id).root_id == claimed.run_id
    assert payload(now.id, "input") == "[1]"


@pytest.mark.behaviour("CANCEL-01g")
def test_a_child_that_is_started_after_the_cancellation_is_cancelled_with_its_parent(db: PrivateDatabase):
    """The cancellation went through the tree before this child was in it."""
    claimed = running(db)
    transitions.cancel(Database(), [claimed.run_id], Verb())
    tied = new_run(parent_id=claimed.run_id, parent_path="tied", root_id=claimed.root_id)
    later = new_run(parent_id=claimed.run_id, parent_path="later", root_id=claimed.root_id, run_after=60.0)
    free = new_run(parent_id=claimed.run_id, parent_path="free", root_id=claimed.root_id, detached=True)
    receipt = write_batch(db, [(claimed.lease, Write(children=[tied, later, free]))])[claimed.run_id]
    assert [status_of(child.id) for child in (tied, later, free)] == ["cancelled", "cancelled", "queued"]
    assert fresh(tied.id).cancel_requested_at is not None
    assert fresh(free.id).cancel_requested_at is None
    assert receipt.ready == [Ready(free.id, "default", 0)]


def test_a_failed_commit_leaves_the_connection_usable(db: PrivateDatabase):
    """A constraint that is checked at COMMIT fails it; on SQLite the transaction is then still open."""
    with pytest.raises(IntegrityError, match=r"(?i)foreign key"), db.transaction():
        db.rows("INSERT INTO auth_permission (name, codename, content_type_id) VALUES ('x', 'x', -1)")
    claimed = running(db)
    write = Write(outcome=Suspended("sleep:nap", wake_after=60))
    assert write_batch(db, [(claimed.lease, write)])[claimed.run_id].status == Status.WAITING


def test_a_transaction_that_is_left_by_an_error_is_rolled_back(db: PrivateDatabase):
    run = make_run()
    with pytest.raises(KeyboardInterrupt), db.transaction():
        db.rows("UPDATE django_durable_run SET claims = 5")
        raise KeyboardInterrupt
    assert fresh(run).claims == 0
    assert claim_ids(db, claimant(), [run.pk], lease=LEASE, time=DatabaseClock())[0].claims == 1


def test_a_closed_connection_opens_again(db: PrivateDatabase):
    claimed = running(db)
    db.close()
    assert write_batch(db, [(claimed.lease, Write(entries(step_entry())))])[claimed.run_id].is_held
    assert JournalEntry.objects.count() == 1

"""Claims: best first, no more than asked for, each under a token of its own, with what is durable of the run."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from django_durable.core import clock
from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.inbox import ChildState
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Ending, Released
from django_durable.core.journal.states import EntryStatus, Phase, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Payload, Run, Worker
from django_durable.store import claiming
from django_durable.store.claiming import (
    Claim,
    JournalsUnread,
    claim_ids,
    claim_next,
    claim_oldest,
    claim_suspect,
    hand_back,
    look_ahead,
    seconds_to_next_due,
)
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.workers import count_suspects, known_workflows
from tests.store.conftest import Connect
from tests.store.parallel import Threads, answer, row_locked
from tests.store.rows import (
    LEASE,
    PAST,
    WORKFLOW,
    at,
    beating,
    child_entry,
    claimant,
    entries,
    event_entry,
    fresh,
    journal_row,
    lease_of,
    make_run,
    row_of,
    running,
    send,
    status_of,
    step_entry,
)

pytestmark = pytest.mark.django_db(transaction=True)


def take(db: Database, limit: int = 100, *workflows: str, **more: Any) -> list[Claim]:
    return claim_next(db, claimant(*workflows, **more), limit, lease=LEASE, time=DatabaseClock())


def take_ids(db: Database, *ids: Any, **more: Any) -> list[Claim]:
    return claim_ids(db, claimant(**more), ids, lease=LEASE, time=DatabaseClock())


@pytest.mark.behaviour("DATA-03a")
def test_the_best_run_is_claimed_first(db: PrivateDatabase):
    """By priority, then by who has waited longest since it was last queued; what has come due is in the same line."""
    low = make_run(priority=-5, queued_at=at(timedelta(hours=-9)))
    old = make_run(queued_at=at(timedelta(hours=-3)))
    due = make_run(Status.WAITING, wake_at=at(timedelta(hours=-2)))
    young = make_run(queued_at=at(timedelta(hours=-1)))
    scheduled = make_run(Status.SCHEDULED, wake_at=at(timedelta(minutes=-1)))
    high = make_run(priority=1, queued_at=at(timedelta(seconds=-1)))
    claimed = [take(db, 1)[0].run_id for _ in range(6)]
    assert claimed == [high.pk, old.pk, due.pk, young.pk, scheduled.pk, low.pk]
    assert take(db) == []


def test_what_is_due_with_a_high_priority_goes_before_what_is_queued(db: PrivateDatabase):
    make_run()
    urgent = make_run(Status.WAITING, wake_at=at(timedelta(seconds=-1)), priority=9)
    assert [claim.run_id for claim in take(db, 1)] == [urgent.pk]


def test_what_is_due_with_a_high_priority_is_not_hidden_by_what_was_due_before(db: PrivateDatabase):
    """Priorities are exact: in a backlog of sleepers no limit cuts off those that slept for longer than others."""
    for number in range(6):
        make_run(Status.WAITING, wake_at=at(timedelta(hours=-1 - number)), priority=-5)
    urgent = make_run(Status.WAITING, wake_at=at(timedelta(seconds=-2)), priority=9)
    next_best = make_run(Status.SCHEDULED, wake_at=at(timedelta(seconds=-1)), priority=9)
    assert [claim.run_id for claim in take(db, 1)] == [urgent.pk]
    assert {claim.priority for claim in take(db, 2)} == {9, -5}
    assert status_of(next_best) == Status.RUNNING


def test_several_queues_are_one_line(db: PrivateDatabase):
    """Neither the order of the queues nor how much waits in each of them counts, for queued and for due alike."""
    queues = ["mail", "default", "unused"]
    expected = []
    for number in range(12):
        since = at(timedelta(minutes=number - 60))
        more = {"queue": queues[number % 2], "priority": number // 4}
        due = make_run(Status.WAITING, wake_at=since, **more)
        queued = make_run(queued_at=since + timedelta(seconds=1), **more)
        expected.append((-more["priority"], number, [due.pk, queued.pk]))
    best_first = [run_id for _, _, ids in sorted(expected) for run_id in ids]
    claimed = [claim.run_id for _ in range(24) for claim in take(db, 1, queues=queues)]
    assert claimed == best_first


@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_no_more_are_claimed_than_asked_for(db: PrivateDatabase, limit: int):
    for number in range(5):
        make_run(priority=number)
        make_run(Status.WAITING, wake_at=at(PAST))
    assert len(take(db, limit)) == min(limit, 10)
    assert Run.objects.filter(status=Status.RUNNING).count() == min(limit, 10)


def test_only_known_names_and_own_queues_are_claimed(db: PrivateDatabase):
    mine = make_run()
    due = make_run(Status.WAITING, wake_at=at(PAST))
    for foreign in ({"workflow": "tests.unknown"}, {"queue": "other"}):
        make_run(**foreign)
        make_run(Status.WAITING, wake_at=at(PAST), **foreign)
    assert {claim.run_id for claim in take(db)} == {mine.pk, due.pk}
    assert take(db, 100, "tests.nobody") == []
    assert claim_next(db, claimant(queues=[]), 10, lease=LEASE, time=DatabaseClock()) == []
    assert {claim.workflow for claim in take(db, 100, "tests.unknown", "tests.work")} == {"tests.unknown"}
    assert {claim.queue for claim in take(db, 100, queues=["other", "another"])} == {"other"}
    assert not Run.objects.exclude(status=Status.RUNNING).exists()


def test_who_knows_no_workflow_claims_nothing(db: PrivateDatabase):
    who = claimant()
    nobody = type(who)(who.id, who.queues, ())
    run = make_run()
    assert claim_ids(db, nobody, [run.pk], lease=LEASE, time=DatabaseClock()) == []
    assert claim_next(db, nobody, 10, lease=LEASE, time=DatabaseClock()) == []
    assert status_of(run) == Status.QUEUED


@pytest.mark.behaviour("RUN-04a", "RUN-19c")
def test_ids_that_are_nobodys_or_not_queued_are_passed_over(db: PrivateDatabase):
    """A queue only hints: an id may be forged, gone, twice in the list, or claimed by another."""
    run, done = make_run(), make_run(Status.SUCCEEDED)
    claims = take_ids(db, uuid7(), run.pk, run.pk, done.pk)
    assert [claim.run_id for claim in claims] == [run.pk]
    assert take_ids(db, run.pk) == []
    assert take_ids(db) == []
    assert fresh(run).claims == 1


def test_every_claim_has_a_token_of_its_own(db: PrivateDatabase):
    runs = [make_run() for _ in range(20)]
    tokens = [claim.lease.token for claim in take(db)]
    assert {run.lease_token for run in Run.objects.all()} == set(tokens)
    assert len(set(tokens)) == 20
    Run.objects.update(status=Status.QUEUED, lease_token=None, leased_by=None, lease_expires_at=None)
    again = [claim.lease.token for claim in take(db)]
    assert len({*tokens, *again}) == 40
    assert {fresh(run).claims for run in runs} == {2}


def test_a_claim_tells_what_the_row_says(db: PrivateDatabase):
    parent = make_run(Status.WAITING)
    run = make_run(
        queue="q",
        priority=5,
        attempt=2,
        max_attempts=4,
        deadline_at=at(timedelta(hours=1)),
        parent_id=parent.pk,
        root_id=parent.pk,
        fingerprint="code",
        claims=3,
    )
    Payload.objects.filter(run_id=run.pk, kind="input").update(data='[{"a": 1}, {}]')
    worker = uuid4()
    before = clock.monotonic()
    [claim] = take(db, queues=["q"], worker=worker)
    told = (claim.workflow, claim.attempt, claim.max_attempts, claim.phase, claim.queue, claim.priority, claim.claims)
    assert told == ("tests.work", 2, 4, "forward", "q", 5, 4)
    assert (claim.root_id, claim.parent_id, claim.fingerprint) == (parent.pk, parent.pk, "code")
    assert claim.input == '[{"a": 1}, {}]'
    row = fresh(run)
    assert claim.deadline_at == row.deadline_at
    assert (row.lease_token, row.leased_by) == (claim.lease.token, worker)
    # Ours ends no later than the one in the database.
    assert before + LEASE <= claim.lease.ends <= clock.monotonic() + LEASE
    assert at(timedelta(seconds=LEASE - 5)) < row.lease_expires_at <= at(timedelta(seconds=LEASE))
    assert claim.lease.cancel_requested is False


def test_a_claim_tells_of_a_cancellation(db: PrivateDatabase):
    make_run(cancel_requested_at=at(PAST), claims=1)
    assert take(db)[0].lease.cancel_requested


def test_an_input_that_is_gone_is_told(db: PrivateDatabase):
    make_run()
    Payload.objects.all().delete()
    assert take(db)[0].input is None


def test_suspects_are_only_claimed_one_by_one_by_who_asks_for_them(db: PrivateDatabase):
    assert count_suspects(db, ["default"], [WORKFLOW], 9) == 0
    suspects = [make_run(suspect=True, priority=number) for number in range(2)]
    assert count_suspects(db, ["default"], [WORKFLOW], 9) == 2
    # Others are for others: whoever is told of them here would look for them in vain.
    assert count_suspects(db, ["other"], [WORKFLOW], 9) == 0
    assert count_suspects(db, ["default"], ["tests.other"], 9) == 0
    assert take(db) == []
    assert take_ids(db, *[run.pk for run in suspects]) == []
    one = claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock())
    assert [claim.run_id for claim in one] == [suspects[1].pk]
    assert status_of(suspects[0]) == Status.QUEUED
    make_run()
    Run.objects.filter(suspect=True).update(queue="other")
    assert claim_suspect(db, claimant(), lease=LEASE, time=DatabaseClock()) == []


def test_a_claim_brings_the_journal_the_events_and_the_children_that_are_over(db: PrivateDatabase):
    first, other = running(db), running(db)
    step = step_entry(value={"a": [1]})
    waits = entries(step, event_entry(), child_entry("one"), child_entry("two"))
    for number, entry in enumerate(waits.values()):
        entry.seq = number + 1
    write_batch(db, [(claim.lease, Write(dict(waits), outcome=Released())) for claim in (first, other)])
    child = make_run(Status.SUCCEEDED, parent_id=first.run_id, parent_path="one")
    Payload.objects.create(run_id=child.pk, kind="output", data="7")
    make_run(Status.WAITING, parent_id=first.run_id, parent_path="two")
    one, two, taken = send(first.run_id, "packed"), send(first.run_id, "packed"), send(first.run_id, "packed")
    type(taken).objects.filter(pk=taken.pk).update(consumed_at=at(PAST), consumed_by="x")
    claims = {claim.run_id: claim for claim in take(db, queues=["default"])}
    journal = claims[first.run_id].journal
    loaded = journal.find("step")
    assert loaded is not None
    assert (loaded.value, loaded.kind, loaded.status, loaded.seq) == (step.value, "step", EntryStatus.SUCCEEDED, 1)
    assert journal.inbox.child("one") == ChildState(child.pk, "succeeded", "7", None)
    assert journal.inbox.child("two") is None
    events = [journal.inbox.take_event(["packed"]) for _ in range(3)]
    assert [event and event.id for event in events] == [one.pk, two.pk, None]
    assert events[0] is not None
    assert events[0].sent_at.tzinfo is not None
    assert set(claims[other.run_id].journal.entries) == set(waits)
    assert claims[other.run_id].journal.inbox.take_event(["packed"]) is None


def test_a_claim_of_a_failed_run_brings_the_failure_for_its_hook(db: PrivateDatabase):
    claim, plain = running(db), running(db)
    error = {"type": "ValueError", "message": "no", "traceback": ""}
    write_batch(
        db, [(claim.lease, Write(outcome=Ending(Phase.ON_FAILURE, error))), (plain.lease, Write(outcome=Released()))]
    )
    claims = {claim.run_id: claim for claim in take(db)}
    assert (claims[claim.run_id].phase, claims[claim.run_id].pending_error) == ("on_failure", encode(error))
    assert (claims[plain.run_id].phase, claims[plain.run_id].pending_error) == ("forward", None)


def test_a_row_that_somebody_holds_is_skipped(db: PrivateDatabase, connect: Connect, threads: Threads):
    busy, free = make_run(priority=9), make_run()
    due = make_run(Status.WAITING, wake_at=at(PAST))
    with row_locked(connect(), busy.pk):
        taking = threads.start(take, db, 1)
        if db.dialect.has_writing_ctes:
            assert [claim.run_id for claim in answer(taking)] in ([due.pk], [free.pk])
            assert take_ids(db, busy.pk) == []
    rest = [claim.run_id for claim in answer(taking) + take(db)]
    assert sorted(rest) == sorted([busy.pk, free.pk, due.pk])


def test_of_many_that_claim_at_once_each_gets_other_runs(connect: Connect, threads: Threads):
    runs = [make_run() for _ in range(60)]
    sessions = [connect() for _ in range(6)]

    def work(db: PrivateDatabase) -> list[Claim]:
        mine: list[Claim] = []
        while claims := take(db, 4) + take_ids(db, *[run.pk for run in runs[:3]]):
            mine += claims
        return mine

    won = [claim for one in [threads.start(work, db) for db in sessions] for claim in answer(one)]
    assert Counter(claim.run_id for claim in won) == Counter(run.pk for run in runs)
    assert {fresh(run).claims for run in runs} == {1}


def test_a_claim_that_is_rolled_back_leaves_the_run_as_it_was(db: PrivateDatabase):
    run = make_run()
    before = row_of(run)
    with pytest.raises(ZeroDivisionError), db.transaction():
        take_ids(db, run.pk)
        raise ZeroDivisionError
    assert row_of(run) == before


def test_the_whole_life_of_a_run(db: PrivateDatabase):
    run = make_run()
    for turn in range(1, 4):
        [claim] = take(db)
        assert (claim.run_id, claim.claims) == (run.pk, turn)
        assert set(claim.journal.entries) == {f"step {n}" for n in range(1, turn)}
        entry = step_entry(f"step {turn}", seq=turn)
        outcome = Completed("1") if turn == 3 else Released()
        write_batch(db, [(claim.lease, Write(entries(entry), outcome=outcome))])
    assert status_of(run) == Status.SUCCEEDED
    started, finished = fresh(run).started_at, fresh(run).finished_at
    assert started is not None
    assert finished is not None
    assert started <= finished


def test_the_oldest_goes_first_whatever_its_priority(db: PrivateDatabase):
    young = make_run(priority=9)
    old = make_run(priority=-9, queued_at=at(timedelta(hours=-2)))
    make_run(queue="other", queued_at=at(timedelta(hours=-3)))
    make_run(workflow="tests.unknown", queued_at=at(timedelta(hours=-3)))
    make_run(suspect=True, queued_at=at(timedelta(hours=-3)))
    claimed = [claim_oldest(db, claimant(), 1, lease=LEASE, time=DatabaseClock()) for _ in range(3)]
    assert [[claim.run_id for claim in claims] for claims in claimed] == [[old.pk], [young.pk], []]


def test_the_oldest_of_every_priority_and_queue_goes_first(db: PrivateDatabase):
    ages = [5, 1, 4, 2, 3, 0]
    runs = {
        hours: make_run(
            priority=(number * 7) % 4 - 2, queue=["mail", "default"][number % 2], queued_at=at(timedelta(hours=-hours))
        )
        for number, hours in enumerate(ages)
    }
    who = claimant(queues=["default", "mail"])
    claimed = []
    for _ in range(3):
        pair = claim_oldest(db, who, 2, lease=LEASE, time=DatabaseClock())
        claimed.append({claim.run_id for claim in pair})
    assert claimed == [{runs[5].pk, runs[4].pk}, {runs[3].pk, runs[2].pk}, {runs[1].pk, runs[0].pk}]


def test_when_the_next_run_comes_due(db: PrivateDatabase):
    """Over all queues and priorities of the claimant, and of nobody else's."""
    who = claimant(queues=["default", "mail"])
    assert seconds_to_next_due(db, who) is None
    make_run(Status.WAITING, wake_at=None, waiting_on="event:packed")
    for foreign in ({"queue": "other"}, {"workflow": "tests.unknown"}, {"suspect": True}):
        make_run(Status.WAITING, wake_at=at(timedelta(seconds=5)), **foreign)
    assert seconds_to_next_due(db, who) is None
    make_run(Status.WAITING, wake_at=at(timedelta(hours=2)), priority=9)
    make_run(Status.SCHEDULED, wake_at=at(timedelta(hours=1)), priority=-9, queue="mail")
    # SQLite's clock has milliseconds.
    assert 3590 < (seconds_to_next_due(db, who) or 0) <= 3600.001
    make_run(Status.WAITING, wake_at=at(timedelta(seconds=-10)))
    assert -11 < (seconds_to_next_due(db, who) or 0) <= -9.999


@pytest.mark.parametrize("limit", [{}, {"limit_key": "a"}], ids=["free", "limited"])
@pytest.mark.parametrize("status", [Status.QUEUED, Status.SCHEDULED, Status.WAITING])
def test_a_look_ahead_sees_whatever_a_claim_would(status: str, limit: dict[str, str], db: PrivateDatabase):
    """An idle worker asks nothing else."""
    who = claimant()
    make_run(queue="other")
    assert look_ahead(db, who) == (False, None)
    make_run(Status.WAITING, wake_at=at(timedelta(hours=1)), **limit)
    ahead = look_ahead(db, who)
    assert ahead.is_empty
    assert 3590 < (ahead.due_in or 0) <= 3600.001
    make_run(status, **limit, **({} if status == Status.QUEUED else {"wake_at": at(PAST)}))
    assert not look_ahead(db, who).is_empty


def test_a_journal_that_cannot_be_read_is_told_of_its_run_alone(db: PrivateDatabase):
    """A newer release wrote it: the claim of its neighbour, and its own, come out all the same."""
    newer, good = make_run(claims=1), make_run(claims=1)
    for run in (newer, good):
        journal_row(run, step_entry())
    JournalEntry.objects.filter(run_id=newer.pk).update(kind="saga")
    claims = {claim.run_id: claim for claim in take(db)}
    assert "'step'" in (claims[newer.pk].unreadable or "")
    assert "saga" in (claims[newer.pk].unreadable or "")
    assert claims[good.pk].unreadable is None
    assert set(claims[good.pk].journal.entries) == {"step"}


def test_claims_whose_journals_are_out_of_reach_are_told_and_handed_back(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
):
    again, first, foreign = make_run(claims=1), make_run(), make_run(claims=1, queue="other")
    [other] = take(db, queues=["other"])
    with monkeypatch.context() as patch:
        patch.setattr(claiming.sql, "load_events", lambda d: "SELECT no_such_column FROM django_durable_event")
        with pytest.raises(JournalsUnread) as caught:
            take(db)
    leases = caught.value.leases
    assert {lease.run_id for lease in leases} == {again.pk, first.pk}
    hand_back(db, [*leases, lease_of(foreign)])
    row = fresh(again)
    assert (row.status, row.lease_token, row.leased_by, row.crashes, row.suspect) == ("queued", None, None, 0, False)
    assert fresh(foreign).lease_token == other.lease.token
    before = row_of(first)
    hand_back(db, leases)
    assert row_of(first) == before
    assert {claim.run_id for claim in take(db)} == {again.pk, first.pk}


@pytest.mark.parametrize(("ago", "is_known"), [(5, True), (70, False)])
def test_who_has_just_stopped_is_known_still(db: PrivateDatabase, ago: float, is_known: bool):
    """As a rule somebody takes its place: a deployment must not make its runs those of nobody."""
    stopped = uuid4()
    beating(stopped, workflows=[WORKFLOW])
    Worker.objects.filter(pk=stopped).update(stopped_at=at(-timedelta(seconds=ago)))
    assert (WORKFLOW in known_workflows(db, 60.0)) is is_known


ODD = ('a "quoted" one', "back\\slash\\", "com,ma {braces}", "NULL", "ünïcode \u2028", "it's %s 100%")


@pytest.mark.parametrize("name", ODD)
def test_names_of_queues_and_workflows_may_have_any_characters(db: PrivateDatabase, name: str) -> None:
    ids = [make_run(queue=name, workflow=name).pk for _ in range(2)]
    who = claimant(name, "other", queues=("first", name))
    assert look_ahead(db, who).has_queued
    [hinted] = claim_ids(db, who, ids[:1], lease=LEASE, time=DatabaseClock())
    [found] = claim_next(db, who, 10, lease=LEASE, time=DatabaseClock())
    assert (hinted.queue, found.workflow) == (name, name)
    assert [hinted.run_id, found.run_id] == ids

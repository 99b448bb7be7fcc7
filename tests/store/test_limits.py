"""Limits: never more leased runs of a key than the claimant's code says, keys in turn, each key's best first."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from django_durable.core.clock import DatabaseClock
from django_durable.core.ids import uuid7
from django_durable.core.journal.journal import Write
from django_durable.core.journal.outcomes import Completed, Released, Suspended
from django_durable.core.journal.states import Status
from django_durable.core.limits import Bounds
from django_durable.models import Limit, Run
from django_durable.queues.ready import Ready
from django_durable.store import limiting, recovery, workers
from django_durable.store.claiming import (
    Claim,
    Claimant,
    claim_ids,
    claim_next,
    claim_oldest,
    claim_suspect,
    seconds_to_next_due,
)
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.limiting import KeyWalk, admit, claim_hinted, claim_limited, hint
from django_durable.store.pruning import prune
from tests.store.conftest import Connect
from tests.store.parallel import SECONDS, Threads, answer
from tests.store.rows import LEASE, PAST, WORKFLOW, at, claimant, entries, make_run, new_run, sleep_entry, status_of

pytestmark = pytest.mark.django_db(transaction=True)


def limited(key: str = "a", *, age: float = 60, **more: Any) -> Run:
    """A run of the key, queued ``age`` seconds ago."""
    if more.get("status", Status.QUEUED) == Status.QUEUED:
        more["queued_at"] = at(-timedelta(seconds=age))
    return make_run(limit_key=key, **more)


def replica(run: Run, **more: Any) -> Run:
    """Another run like it, not yet stored."""
    values = {field.attname: getattr(run, field.attname) for field in Run._meta.concrete_fields}
    run_id = uuid7()
    return Run(**{**values, "id": run_id, "root_id": run_id, **more})


def limiter(maximum: int | None = 1, *workflows: str, queues: Sequence[str] = ("default",)) -> Claimant:
    names = workflows or (WORKFLOW,)
    return Claimant(uuid4(), tuple(queues), names, {} if maximum is None else dict.fromkeys(names, Bounds(maximum)))


def take(db: Database, limit: int = 10, maximum: int | None = 1, **more: Any) -> list[Claim]:
    return claim_limited(db, limiter(maximum), limit, KeyWalk(), lease=LEASE, time=DatabaseClock(), **more)


def test_a_suspect_with_a_limit_is_cleared_by_what_it_journals(db: PrivateDatabase):
    run = limited(suspect=True, crashes=2)
    [alone] = take(db, 1, suspect=True)
    write_batch(db, [(alone.lease, Write(entries(sleep_entry(seconds=60))))])
    run.refresh_from_db()
    assert (run.suspect, run.crashes, alone.lease.is_suspect) == (False, 0, False)


def ids_of(claims: Sequence[Claim]) -> set[UUID]:
    return {claim.run_id for claim in claims}


def end(db: Database, *claims: Claim, outcome: Any = None) -> None:
    write_batch(db, [(claim.lease, Write(outcome=outcome or Completed("1"))) for claim in claims])


# --- how many --------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-12a", "RUN-12b")
def test_no_more_than_the_limit_is_leased_and_none_is_dropped(db: PrivateDatabase):
    runs = [limited(age=60 - number) for number in range(5)]
    order = []
    while claims := take(db, maximum=2):
        assert Run.objects.filter(status="running").count() == len(claims) <= 2
        assert take(db, maximum=2) == []
        order.append(ids_of(claims))
        end(db, *claims)
    assert order == [{runs[0].pk, runs[1].pk}, {runs[2].pk, runs[3].pk}, {runs[4].pk}]


def test_a_slot_that_is_free_is_filled_while_others_are_taken(db: PrivateDatabase):
    for _ in range(4):
        limited()
    first, second = take(db, maximum=2)
    end(db, first)
    [third] = take(db, maximum=2)
    assert third.run_id not in {first.run_id, second.run_id}
    assert third.limit_key == "a"


@pytest.mark.behaviour("RUN-12c")
def test_of_a_key_its_priority_goes_first_then_its_age(db: PrivateDatabase):
    young, old = limited(age=1), limited(age=50)
    high, low = limited(age=1, priority=5), limited(age=90, priority=-5)
    order = []
    while claims := take(db):
        order += [claim.run_id for claim in claims]
        end(db, *claims)
    assert order == [high.pk, old.pk, young.pk, low.pk]


@pytest.mark.behaviour("RUN-12e")
def test_a_run_that_waits_holds_no_slot(db: PrivateDatabase):
    limited(age=9)
    limited(age=8)
    [first] = take(db)
    asleep = Write(entries(sleep_entry(3600)), outcome=Suspended("sleep:nap", wake_after=3600))
    write_batch(db, [(first.lease, asleep)])
    assert status_of(first.run_id) == Status.WAITING
    assert len(take(db)) == 1


def test_a_run_that_was_handed_back_frees_its_slot(db: PrivateDatabase):
    limited()
    [claim] = take(db)
    end(db, claim, outcome=Released())
    assert ids_of(take(db)) == {claim.run_id}


@pytest.mark.behaviour("RUN-12e")
def test_a_slot_of_a_dead_process_is_free_once_its_lease_was_reaped(db: PrivateDatabase):
    held, next_one = limited(age=9), limited(age=8)
    who = limiter()
    [claim] = claim_limited(db, who, 10, KeyWalk(), lease=-5, time=DatabaseClock())
    assert claim.run_id == held.pk
    # A lease that lapsed proves no death: until it is taken away, its holder may still be at work.
    assert take(db) == []
    recovery.reap(db, 10, lease=LEASE, max_crashes=3)
    assert ids_of(take(db)) == {next_one.pk}


def test_the_number_is_that_of_the_code_that_claims(db: PrivateDatabase):
    for _ in range(6):
        limited()
    assert len(take(db, maximum=1)) == 1
    assert len(take(db, maximum=3)) == 2
    assert take(db, maximum=2) == []
    assert len(take(db, maximum=None)) == 3, "code without a limit takes what was started under one"


def test_a_limit_bounds_no_more_than_there_are_slots(db: PrivateDatabase):
    for _ in range(5):
        limited()
    assert len(take(db, 2, maximum=4)) == 2
    assert len(take(db, 10, maximum=4)) == 2


# --- what ends -------------------------------------------------------------------------------

ENDING: dict[str, dict[str, Any]] = {
    "cancelled": {"cancel_requested_at": at(PAST)},
    "compensating": {"phase": "compensating"},
    "on_failure": {"phase": "on_failure"},
}


def ending(how: str = "compensating", **more: Any) -> Run:
    return limited(claims=1, started_at=at(PAST), **{"age": 1.0, **ENDING[how], **more})


@pytest.mark.behaviour("RUN-12c")
@pytest.mark.parametrize("how", ENDING)
def test_what_is_as_good_as_over_goes_before_all_others_of_its_key(db: PrivateDatabase, how: str):
    for number in range(12):
        limited(age=900 - number, priority=number)
    last = [ending(how, priority=-5, age=9), ending(how, priority=-5, age=8)]
    assert [ready.id for ready in admit(db, ["a"], {WORKFLOW: Bounds(2)}, 10, ends=True)] == [run.pk for run in last]
    order = []
    for _ in range(3):
        [claim] = take(db)
        order.append(claim.run_id)
        end(db, claim)
    assert order[:2] == [run.pk for run in last]
    assert order[2] == Run.objects.get(priority=11).pk


@pytest.mark.behaviour("RUN-12c")
@pytest.mark.parametrize("where", [{"queue": "elsewhere"}, {"suspect": True}, {"workflow": "tests.renamed"}], ids=str)
def test_the_slot_of_what_ends_is_kept_free_where_another_worker_takes_it(db: PrivateDatabase, where: dict[str, Any]):
    last, new, other = ending(**where), limited(age=900), limited("b")
    limited(age=90)
    assert ids_of(take(db, 1)) == {other.pk}, "and the key takes no turn of another"
    told = [] if "suspect" in where else [Ready(last.pk, last.queue, 0)]
    assert admit(db, ["a"], {WORKFLOW: Bounds(1)}, 10, ends=True) == told
    assert hinted(db, new) == []
    assert len(take(db, maximum=2)) == 1
    assert take(db, maximum=2) == []
    Run.objects.filter(pk=last.pk).update(status="cancelled", finished_at=at(PAST))
    assert len(take(db, maximum=2)) == 1


def test_two_that_end_and_wait_for_different_workers_are_not_in_each_other_s_way(db: PrivateDatabase):
    here, there = ending(), ending(queue="elsewhere")
    limited()
    [claim] = take(db)
    assert claim.run_id == here.pk
    end(db, claim)
    assert take(db) == []
    who = limiter(queues=("elsewhere",))
    assert ids_of(claim_limited(db, who, 9, KeyWalk(), lease=LEASE, time=DatabaseClock())) == {there.pk}


def test_what_ends_waits_for_no_rate_and_holds_up_none_of_a_key_without_a_maximum(db: PrivateDatabase):
    last, _ = ending(queue="elsewhere"), [limited() for _ in range(3)]
    assert len(take(db, maximum=None)) == 3
    Run.objects.filter(pk=last.pk).update(queue="default")
    assert ids_of(take(db, maximum=None)) == {last.pk}


# --- whose turn it is ------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-12d")
def test_keys_take_turns_whatever_their_backlog(db: PrivateDatabase):
    first = limited("a", age=1000)
    backlog = [replica(first, queued_at=at(-timedelta(seconds=999 - number / 100))) for number in range(10_000)]
    Run.objects.bulk_create(backlog, batch_size=2_000)
    limited("b", age=1)
    limited("c", age=2)
    keys = []
    for _ in range(4):
        [claim] = take(db, 1)
        keys.append(claim.limit_key)
        end(db, claim)
    assert sorted(keys[:3]) == ["a", "b", "c"]
    assert keys[3] == "a"


def test_of_the_room_of_two_keys_each_gets_a_part(db: PrivateDatabase):
    for number in range(30):
        limited("a", age=1000 - number)
        limited("b", age=number)
    claims = take(db, 4, maximum=20)
    assert sorted(claim.limit_key or "" for claim in claims) == ["a", "a", "b", "b"]


def test_a_full_key_is_in_nobodys_way(db: PrivateDatabase):
    for _ in range(3):
        limited("a", age=1000)
    assert len(take(db)) == 1
    other = limited("b", age=1)
    assert ids_of(take(db)) == {other.pk}


def test_looks_go_round_where_there_are_more_keys_than_one_asks_for(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limiting, "MOST_KEYS", 2)
    for key in "abcde":
        for _ in range(2):
            limited(key)
    walk, found = KeyWalk(), set()
    for _ in range(4):
        claims = claim_limited(db, limiter(), 10, walk, lease=LEASE, time=DatabaseClock())
        found |= {claim.limit_key for claim in claims}
    assert found == set("abcde")


def test_a_look_that_had_to_queue_what_was_due_leaves_out_none_of_its_keys(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limiting, "MOST_KEYS", 2)
    limited("a")
    limited("b")
    walk, found = KeyWalk(), set()
    for _ in range(2):
        limited("c", status=Status.SCHEDULED, wake_at=at(PAST))
        claims = claim_limited(db, limiter(), 10, walk, lease=LEASE, time=DatabaseClock())
        found |= {claim.limit_key for claim in claims}
    assert found == {"a", "b", "c"}


# --- which runs ------------------------------------------------------------------------------


def test_claims_of_other_runs_leave_them_alone(db: PrivateDatabase):
    run, due = limited(), limited(status=Status.SCHEDULED, wake_at=at(PAST))
    limited(suspect=True)
    who, time = claimant(), DatabaseClock()
    assert claim_ids(db, who, [run.pk, due.pk], lease=LEASE, time=time) == []
    assert claim_next(db, who, 10, lease=LEASE, time=time) == []
    assert claim_oldest(db, who, 10, lease=LEASE, time=time) == []
    assert claim_suspect(db, who, lease=LEASE, time=time) == []
    assert workers.first_startable(db, "default", 10) == []
    assert seconds_to_next_due(db, who) is None


def test_what_has_no_limit_is_left_alone_by_them(db: PrivateDatabase):
    make_run()
    make_run(Status.SCHEDULED, wake_at=at(PAST))
    assert take(db) == []


def test_what_has_come_due_is_claimed(db: PrivateDatabase):
    due = limited(status=Status.SCHEDULED, wake_at=at(PAST))
    awake = limited("b", status=Status.WAITING, wake_at=at(PAST), waiting_on="sleep:nap")
    limited("c", status=Status.SCHEDULED)
    assert seconds_to_next_due(db, limiter()) is not None
    assert ids_of(take(db)) == {due.pk, awake.pk}


def test_what_somebody_else_is_to_work_on_is_left_to_them(db: PrivateDatabase):
    limited("a", queue="elsewhere")
    limited("b", workflow="tests.other")
    limited("c", suspect=True)
    assert take(db) == []
    nobody = Claimant(uuid4(), ("default",), ())
    assert claim_limited(db, nobody, 10, KeyWalk(), lease=LEASE, time=DatabaseClock()) == []


def test_suspects_have_their_limit_too(db: PrivateDatabase):
    suspect, other = limited(suspect=True), limited(age=1)
    [claim] = take(db)
    assert claim.run_id == other.pk
    assert take(db, suspect=True) == []
    end(db, claim)
    assert ids_of(take(db, suspect=True)) == {suspect.pk}


# --- hints -----------------------------------------------------------------------------------


def hinted(db: Database, *runs: Run) -> list[Claim]:
    return claim_hinted(db, limiter(), [run.pk for run in runs], lease=LEASE, time=DatabaseClock())


def test_an_id_stands_for_its_key(db: PrivateDatabase):
    first, second = limited(age=9), limited(age=8)
    assert ids_of(hinted(db, second)) == {first.pk}
    assert hinted(db, second) == []
    assert hinted(db, make_run()) == []


def test_as_many_ids_are_admitted_as_a_key_has_room_for(db: PrivateDatabase):
    runs = [limited(age=60 - number) for number in range(4)] + [limited("b")]
    take(db, 1)
    admitted = admit(db, ["a", "b", "gone"], {WORKFLOW: Bounds(3)}, 10)
    assert {ready.id for ready in admitted} == {runs[1].pk, runs[2].pk, runs[4].pk}
    assert len(admit(db, ["a", "b"], {WORKFLOW: Bounds(3)}, 2)) == 2
    assert len(admit(db, ["a"], {}, 10)) == 3
    assert admit(db, ["a"], {WORKFLOW: Bounds(1)}, 10) == []
    # It reserves nothing.
    assert len(take(db, maximum=3)) == 3


class Told:
    """A queue that remembers what it was told."""

    gives_hints = True

    def __init__(self) -> None:
        self.ready: list[Ready] = []

    def push(self, runs: Sequence[Ready]) -> None:
        self.ready += runs

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        return []

    def length(self, queue: str) -> int:
        return len(self.ready)

    def close(self) -> None:
        pass


def test_of_new_runs_the_queue_hears_of_those_that_can_start(db: PrivateDatabase):
    from django_durable.store.starting import start_runs

    free, new = new_run(), [new_run(limit_key="a") for _ in range(20)]
    ready, told = start_runs(db, [free, *new]), Told()
    hint(db, told, ready, {WORKFLOW: Bounds(2)})
    assert [one.id for one in told.ready] == [free.id, new[0].id, new[1].id]
    claims = take(db, maximum=2)
    told.ready.clear()
    hint(db, told, start_runs(db, [new_run(limit_key="a")]), {WORKFLOW: Bounds(2)})
    assert told.ready == []
    assert len(claims) == 2


# --- the rows of limits ----------------------------------------------------------------------


def test_the_row_of_a_limit_that_is_idle_is_pruned(db: PrivateDatabase):
    for key in ("idle", "young", "queued", "running"):
        limited(key)
    for claim in take(db):
        if claim.limit_key != "running":
            end(db, claim)
    limited("queued")
    Limit.objects.exclude(key="young").update(admitted_at=at(-timedelta(days=2)))
    prune(db, 100)
    assert set(Limit.objects.values_list("key", flat=True)) == {"young", "queued", "running"}
    limited("idle")
    assert {claim.limit_key for claim in take(db)} == {"idle", "queued"}


def test_of_many_sessions_none_ever_sees_more_leased_than_the_limit(connect: Connect, threads: Threads):
    keys, each, maximum = ("a", "b", "c"), 12, 2
    for key in keys:
        for number in range(each):
            limited(key, age=number)
    barrier, done = threading.Barrier(4), threading.Event()
    counts = """
        SELECT count(*) FROM django_durable_run WHERE status = 'running' GROUP BY limit_key
        ORDER BY count(*) DESC LIMIT 1"""

    def work() -> int:
        mine, walk, most, worked = connect(), KeyWalk(), 0, 0
        barrier.wait(SECONDS)
        while not done.is_set():
            claims = claim_limited(mine, limiter(maximum), 3, walk, lease=LEASE, time=DatabaseClock())
            if claims:
                most = max(most, mine.rows(counts)[0][0])
                end(mine, *claims)
                worked += len(claims)
            elif not mine.rows("SELECT 1 FROM django_durable_run WHERE status IN ('queued', 'running') LIMIT 1"):
                done.set()
        assert most <= maximum
        return worked

    assert sum(answer(one) for one in [threads.start(work) for _ in range(4)]) == len(keys) * each
    assert not Run.objects.exclude(status="succeeded").exists()

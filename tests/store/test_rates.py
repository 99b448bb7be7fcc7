"""Rates: no period of a key ever holds more first claims than its code says; what goes on is not counted anew."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest

from django_durable.core import clock, registry
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.outcomes import Completed, Released, Retried, Suspended
from django_durable.core.journal.states import Status
from django_durable.core.limits import Bounds, Rate
from django_durable.models import Run
from django_durable.store import recovery
from django_durable.store.claiming import Claim, Claimant
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.limiting import KeyWalk, admit, claim_hinted, claim_limited, seconds_to_opening
from django_durable.store.pruning import prune, retention
from tests.store.conftest import Connect
from tests.store.parallel import SECONDS, Threads, answer
from tests.store.rows import LEASE, WORKFLOW, at, make_run
from tests.store.test_limits import end, ids_of, limited

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("unmoved_clock")]

TWO_A_MINUTE = Bounds(rate=Rate(2, 60))


def paced(bounds: Bounds = TWO_A_MINUTE) -> Claimant:
    return Claimant(uuid4(), ("default",), (WORKFLOW,), {WORKFLOW: bounds})


def take(db: Database, limit: int = 10, bounds: Bounds = TWO_A_MINUTE) -> list[Claim]:
    return claim_limited(db, paced(bounds), limit, KeyWalk(), lease=LEASE, time=DatabaseClock())


def later(seconds: float) -> None:
    clock.set_offset(clock.offset() + timedelta(seconds=seconds))


def backlog(key: str, count: int) -> list[Run]:
    return [limited(key, age=1000 - number) for number in range(count)]


# --- how often -------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-12g")
def test_no_more_begin_than_the_rate_says_until_the_period_is_over(db: PrivateDatabase):
    runs = backlog("a", 5)
    order = [ids_of(take(db))]
    later(30)
    assert take(db) == []
    later(31)
    order.append(ids_of(take(db)))
    later(61)
    order.append(ids_of(take(db)))
    assert order == [{runs[0].pk, runs[1].pk}, {runs[2].pk, runs[3].pk}, {runs[4].pk}]


@pytest.mark.behaviour("RUN-12g")
def test_the_period_slides(db: PrivateDatabase):
    """It is no calendar minute: two at the end of one and two at the beginning of the next are four in a second."""
    backlog("a", 4)
    end(db, *take(db, 1))
    later(40)
    end(db, *take(db))
    later(21)
    assert len(take(db)) == 1, "the second one still counts"
    later(40)
    assert len(take(db)) == 1


@pytest.mark.behaviour("RUN-12g")
@pytest.mark.parametrize("how", ["over", "dead", "handed back"])
def test_a_start_counts_whatever_became_of_it(db: PrivateDatabase, how: str):
    backlog("a", 3)
    claims = take(db)
    if how == "dead":
        Run.objects.filter(status=Status.RUNNING).update(lease_expires_at=at(-timedelta(seconds=5)))
        recovery.reap(db, 10, lease=LEASE, max_crashes=3)
    else:
        end(db, *claims, outcome=Completed("1") if how == "over" else Released())
    assert {claim.run_id for claim in take(db)} <= ids_of(claims), "no third one begins"


@pytest.mark.behaviour("RUN-12h")
@pytest.mark.parametrize("outcome", [Suspended("sleep:nap", wake_after=1), Retried({"type": "E"}, 2, 1.0), Released()])
def test_what_goes_on_neither_waits_for_the_rate_nor_counts_anew(db: PrivateDatabase, outcome: Any):
    backlog("a", 3)
    first = take(db)
    end(db, *first, outcome=outcome)
    later(2)
    assert ids_of(take(db)) == ids_of(first)
    later(59)
    assert len(take(db)) == 1


@pytest.mark.behaviour("RUN-12h")
def test_what_goes_on_is_found_behind_a_backlog_of_those_that_wait(db: PrivateDatabase):
    backlog("a", 30)
    [one, other] = take(db)
    end(db, one, other, outcome=Released())
    assert ids_of(take(db, 1)) <= ids_of([one, other])
    hint = claim_hinted(db, paced(), list(ids_of([one, other])), lease=LEASE, time=DatabaseClock())
    assert len(hint) == 1


def test_both_bounds_hold(db: PrivateDatabase):
    backlog("a", 6)
    bounds = Bounds(concurrency=1, rate=Rate(2, 60))
    [first] = take(db, bounds=bounds)
    assert take(db, bounds=bounds) == []
    end(db, first)
    [second] = take(db, bounds=bounds)
    end(db, second, outcome=Released())
    # The rate is used up, and there is a slot for the one that goes on.
    assert ids_of(take(db, bounds=bounds)) == {second.run_id}


def test_runs_that_go_on_take_none_of_what_may_begin(db: PrivateDatabase):
    backlog("a", 6)
    first = take(db, 1)
    end(db, *first, outcome=Released())
    claims = take(db, 10)
    assert len(claims) == 2
    assert ids_of(first) < ids_of(claims)


@pytest.mark.parametrize("maximum", [None, 6], ids=["rate", "both"])
def test_runs_that_go_on_hide_none_of_those_that_may_begin(db: PrivateDatabase, maximum: int | None):
    for number in range(3):
        limited(age=2000 - number, claims=1, started_at=at(-timedelta(hours=1)))
    runs = backlog("a", 5)
    claims = take(db, 10, Bounds(maximum, Rate(2, 60)))
    assert len(claims) == 5
    assert ids_of(claims) >= {runs[0].pk, runs[1].pk}


@pytest.mark.behaviour("RUN-12d")
def test_each_key_has_its_rate_and_a_full_one_is_in_nobodys_way(db: PrivateDatabase):
    backlog("a", 30)
    take(db)
    other = limited("b", age=1)
    assert ids_of(take(db)) == {other.pk}


def test_the_rate_is_that_of_the_code_that_claims(db: PrivateDatabase):
    backlog("a", 8)
    assert len(take(db, bounds=Bounds(rate=Rate(1, 60)))) == 1
    assert len(take(db, bounds=Bounds(rate=Rate(3, 60)))) == 2
    assert len(take(db, bounds=Bounds())) == 5


@pytest.mark.behaviour("RUN-12g")
def test_of_many_sessions_no_period_ever_holds_more_starts_than_the_rate(connect: Connect, threads: Threads):
    starts, period, count = 3, 60, 30
    for key in ("a", "b"):
        for number in range(count):
            limited(key, age=number)
    barrier, left = threading.Barrier(5), threading.Event()

    def work() -> int:
        mine, worked = connect(), 0
        barrier.wait(SECONDS)
        while not left.is_set():
            claims = take(mine, 2, Bounds(rate=Rate(starts, period)))
            end(mine, *claims)
            worked += len(claims)
        return worked

    def hurry() -> None:
        mine = connect()
        barrier.wait(SECONDS)
        while mine.rows("SELECT 1 FROM django_durable_run WHERE status <> 'succeeded' LIMIT 1"):
            later(7)
        left.set()

    working, hurrying = [threads.start(work) for _ in range(4)], threads.start(hurry)
    answer(hurrying)
    assert sum(map(answer, working)) == 2 * count
    for key in ("a", "b"):
        begun = Run.objects.filter(limit_key=key).order_by("started_at").values_list("started_at", flat=True)
        assert all(b - a >= timedelta(seconds=period) for a, b in zip(begun, begun[starts:], strict=False))
        assert len(set(begun)) > 1 and all(b >= a for a, b in pairwise(begun))


# --- who hears of it -------------------------------------------------------------------------


RATES = {WORKFLOW: TWO_A_MINUTE}


def test_as_many_ids_are_admitted_as_may_begin_and_those_that_go_on(db: PrivateDatabase):
    runs = backlog("a", 5)
    assert [ready.id for ready in admit(db, ["a"], RATES, 10)] == [runs[0].pk, runs[1].pk]
    [claim] = take(db, 1)
    end(db, claim, outcome=Released())
    admitted: Sequence[UUID] = [ready.id for ready in admit(db, ["a"], RATES, 10)]
    assert set(admitted) == {claim.run_id, runs[1].pk}
    take(db, 10)
    assert admit(db, ["a"], RATES, 10) == []


def test_when_the_first_full_rate_opens(db: PrivateDatabase):
    assert seconds_to_opening(db, KeyWalk().next(db), RATES) is None
    backlog("a", 3)
    assert seconds_to_opening(db, KeyWalk().next(db), RATES) is None, "there is room"
    take(db, 1)
    later(20)
    take(db)
    later(10)
    opens_in = seconds_to_opening(db, KeyWalk().next(db), RATES)
    assert opens_in is not None
    # Not fifty, as with the other; and less than thirty only by what this machine has taken.
    assert 0 < opens_in <= 30, "with the oldest of the two"
    assert seconds_to_opening(db, ["a"], {WORKFLOW: Bounds(concurrency=1)}) is None
    Run.objects.filter(status=Status.QUEUED).delete()
    assert seconds_to_opening(db, ["a"], RATES) is None, "nobody waits for it"


def test_what_a_rate_still_counts_is_kept_whatever_the_retention(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch):
    class Declared:
        name, aliases, where, bounds = WORKFLOW, (), "here", Bounds(rate=Rate(1, 3600))

    monkeypatch.setattr(registry, "definitions", lambda: {WORKFLOW: Declared()})
    now = at(timedelta(0))
    counted = make_run(Status.SUCCEEDED, limit_key="a", started_at=now, finished_at=now)
    make_run(Status.SUCCEEDED, workflow="tests.other", finished_at=now)
    later(1800)
    prune(db, 100, retention({WORKFLOW: 60.0}, default=60.0))
    assert list(Run.objects.values_list("pk", flat=True)) == [counted.pk]


def test_a_child_that_a_rate_still_counts_keeps_its_tree(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch):
    class Declared:
        name, aliases, where, bounds = WORKFLOW, (), "here", Bounds(rate=Rate(1, 3600))

    monkeypatch.setattr(registry, "definitions", lambda: {WORKFLOW: Declared()})
    now = at(timedelta(0))
    root = make_run(Status.SUCCEEDED, workflow="tests.other", finished_at=now)
    make_run(Status.SUCCEEDED, parent_id=root.pk, root_id=root.pk, limit_key="a", started_at=now, finished_at=now)
    make_run(Status.SUCCEEDED, workflow="tests.other", finished_at=now)
    keep = retention({}, default=60.0)
    later(1800)
    assert prune(db, 100, keep).runs == 1
    later(1801)
    assert prune(db, 100, keep).runs == 2

"""The claimer's tick: what it claimed starts whatever fails later, and a lost id does not starve behind a backlog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from math import inf
from typing import Any
from uuid import UUID

import pytest
from django.db.utils import OperationalError
from django.utils import timezone

from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.core.journal.states import Status
from django_durable.core.limits import Bounds
from django_durable.executor.sync_attempt import run_attempt
from django_durable.models import JournalEntry, Run
from django_durable.queues import Ready
from django_durable.store import claiming
from django_durable.store.claiming import Claim, Claimant, JournalsUnread
from django_durable.store.database import PrivateDatabase
from django_durable.worker import claimer as module
from django_durable.worker.claimer import Claimer
from django_durable.worker.committer import Committer
from django_durable.worker.slots import Slots
from django_durable.workflows.registry import get_workflow
from tests.app import workflows
from tests.processes import wait_until
from tests.store.rows import WORKFLOW, at, claimant, fresh, journal_row, make_run, status_of, step_entry

pytestmark = pytest.mark.django_db(transaction=True)


class Listed:
    """A list of ids in this process."""

    gives_hints = True

    def __init__(self, *runs: Run) -> None:
        self.ids = [run.pk for run in runs]
        self.waits: list[float] = []

    def push(self, runs: Sequence[Ready]) -> None:
        self.ids += [run.id for run in runs]

    def pop(self, queues: Sequence[str], limit: int, timeout: float) -> list[UUID]:
        self.waits.append(timeout)
        # As Redis does it: what is asked for is at least one.
        limit = max(limit, 1)
        found, self.ids = self.ids[:limit], self.ids[limit:]
        return found

    def length(self, queue: str) -> int:
        return len(self.ids)

    def close(self) -> None:
        pass


class Parts:
    """A claimer that is ticked by hand; what it started, in order."""

    def __init__(self, db: PrivateDatabase, limit: int, *listed: Run) -> None:
        self.queue, self.slots = Listed(*listed), Slots(limit)
        self.started: list[Claim] = []
        self.claimer = Claimer(db, self.queue, claimant(), self.slots, limit, self.started.extend)

    @property
    def ids(self) -> list[UUID]:
        return [claim.run_id for claim in self.started]

    def free_all(self) -> None:
        for lease in self.slots.leases():
            self.slots.free(lease)


def refuse(*_: object, **__: object) -> None:
    raise OperationalError("gone")


@pytest.mark.parametrize("fails", ["claim_next", "seconds_to_next_due"])
def test_what_was_claimed_starts_although_a_later_statement_fails(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    run = make_run()
    parts = Parts(db, 8, run)
    monkeypatch.setattr(module, fails, refuse)
    with pytest.raises(OperationalError):
        parts.claimer.tick()
    assert parts.ids == [run.pk]
    assert [lease.run_id for lease in parts.slots.leases()] == [run.pk]


def test_claims_without_their_journals_are_handed_back(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    again, first = make_run(claims=1), make_run()
    parts = Parts(db, 8, again, first)
    with monkeypatch.context() as patch:
        patch.setattr(claiming.sql, "load_events", lambda d: "SELECT no_such_column FROM django_durable_event")
        with pytest.raises(JournalsUnread):
            parts.claimer.tick()
        assert (parts.ids, parts.slots.used) == ([], 0)
        # The database stays away: they are still to be handed back after that.
        patch.setattr(module, "hand_back", refuse)
        with pytest.raises(OperationalError):
            parts.claimer.tick()
    assert {status_of(again), status_of(first)} == {"running"}
    parts.claimer.tick()
    assert set(parts.ids) == {again.pk, first.pk}
    assert (fresh(again).crashes, fresh(again).suspect, parts.slots.used) == (0, False, 2)


def test_a_worker_gets_over_journals_that_it_could_not_read(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REAP_SECONDS": 300}
    run = make_run(claims=1)
    parts, load, failures = Parts(db, 8, run), claiming._load, [OperationalError("gone")]

    def load_once_more(*arguments: object) -> None:
        if failures:
            raise failures.pop()
        load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(claiming, "_load", load_once_more)
    parts.claimer.begin()
    try:
        # Its id is in no list any more, and nobody waits here for the next sweep.
        wait_until(lambda: parts.ids == [run.pk], message="the run")
    finally:
        parts.claimer.stop()


def test_a_run_of_a_newer_release_is_blocked_and_its_neighbours_run(connect: Callable[[], PrivateDatabase]) -> None:
    newer, good = workflows.doubling.enqueue(number=1), workflows.doubling.enqueue(number=2)
    Run.objects.update(claims=1)
    journal_row(Run.objects.get(pk=newer.id), step_entry("other"))
    JournalEntry.objects.update(kind="saga")
    committer, slots = Committer(connect(), lambda *_: None), Slots(2)

    def work(claims: Sequence[Claim]) -> None:
        for claim in claims:
            run_attempt(claim, get_workflow(claim.workflow), committer)

    assert Claimer(connect(), Listed(), claimant("app.doubling"), slots, 2, work).tick() == 2
    committer.close()
    assert good.result() == 4
    row = fresh(newer.id)
    assert (row.status, row.block_reason) == ("blocked", "undecodable")


def backlog(count: int) -> list[Run]:
    return [make_run(priority=1, queued_at=at(timedelta(minutes=-5))) for _ in range(count)]


def due(count: int) -> list[Run]:
    return [make_run(status="waiting", waiting_on="sleep", wake_at=at(timedelta(seconds=-1))) for _ in range(count)]


@pytest.mark.parametrize("slots", [1, 16])
def test_a_lost_id_does_not_wait_for_the_end_of_a_backlog(
    db: PrivateDatabase, travel: Callable[[float], None], slots: int
) -> None:
    listed, lost = backlog(8 * slots), make_run(priority=-1, queued_at=at(timedelta(hours=-1)))
    parts = Parts(db, slots, *listed)
    assert parts.claimer.tick() >= 1
    assert lost.pk in parts.ids
    # Until the next sweep the list has every slot again, and no look goes beside it.
    late = make_run(priority=-1, queued_at=at(timedelta(hours=-1)))
    for _ in range(3):
        parts.free_all()
        # Less what the sweep had taken from the list, which is tried once more.
        assert parts.claimer.tick() >= slots * 7 // 8
    assert late.pk not in parts.ids
    travel(6)
    parts.free_all()
    parts.claimer.tick()
    assert late.pk in parts.ids


def test_a_sweep_costs_a_backlog_one_statement(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes is still in the list, which must not set off one look after another."""
    parts = Parts(db, 16, *backlog(160))
    looks: list[int] = []
    monkeypatch.setattr(parts.claimer, "_look", lambda room: looks.append(room) or 0)
    for _ in range(8):
        parts.claimer.tick()
        parts.free_all()
    assert looks == []
    assert len(parts.ids) == len(set(parts.ids)) >= 8 * 16 - 2 * 2


def test_two_workers_at_one_list_do_not_sweep_on_and_on(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one has swept is stale in the other's hands, and what that one looks for instead is so in the first's."""
    one, other = Parts(db, 16, *backlog(240)), Parts(db, 16)
    other.claimer._queue = one.queue
    one.claimer._next_look = inf
    pop = one.queue.pop

    def pop_behind_the_other(*given: Any) -> list[UUID]:
        monkeypatch.setattr(one.queue, "pop", pop)
        one.claimer.tick()
        return pop(*given)

    monkeypatch.setattr(one.queue, "pop", pop_behind_the_other)
    calls: Counter[str] = Counter()

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **more: Any) -> Any:
            calls[call.__name__] += 1
            return call(*given, **more)

        return wrapped

    monkeypatch.setattr(module, "claim_oldest", counted(claiming.claim_oldest))
    monkeypatch.setattr(module, "claim_next", counted(claiming.claim_next))
    ticks = 0
    while len(one.queue.ids) > 16:
        for parts in (other, one):
            parts.claimer.tick()
            parts.free_all()
            ticks += 1
    assert ticks >= 12
    assert calls["claim_oldest"] == 1
    assert calls["claim_next"] <= 4


def test_the_end_of_a_backlog_is_a_look(db: PrivateDatabase) -> None:
    """What the sweep put off is made up for once the list is dry, not a sweep later."""
    parts = Parts(db, 4, *backlog(6))
    parts.claimer.tick()
    hidden = make_run()
    for _ in range(3):
        parts.free_all()
        parts.claimer.tick()
    assert hidden.pk in parts.ids
    parts.free_all()
    assert clock.monotonic() < parts.claimer._next_look


def test_the_look_after_a_backlog_is_followed_by_others_while_it_fills_all_slots(db: PrivateDatabase) -> None:
    """Many come due while a list is worked off: none of them may wait for what the sweep had put off."""
    parts = Parts(db, 4, *backlog(6))
    parts.claimer.tick()
    runs = due(10)
    for _ in range(5):
        parts.free_all()
        parts.claimer.tick()
    assert {run.pk for run in runs} <= set(parts.ids)


def test_a_hint_of_nothing_leads_to_all_that_is_due(db: PrivateDatabase) -> None:
    """Its look fills all slots, and the next one was planned before any of this was there."""
    parts = Parts(db, 4)
    parts.claimer.tick()
    runs = due(10)
    parts.queue.ids = [make_run(status="succeeded").pk]
    for _ in range(3):
        parts.claimer.tick()
        parts.free_all()
    assert {run.pk for run in runs} <= set(parts.ids)


def test_at_the_end_of_a_backlog_nobody_waits_for_the_list(db: PrivateDatabase) -> None:
    parts = Parts(db, 4, *backlog(4))
    parts.claimer.tick()
    parts.free_all()
    parts.queue.ids = []
    parts.queue.waits.clear()
    parts.claimer.tick()
    assert parts.queue.waits == [0.0]


def test_who_is_full_passes_on_what_comes_due(
    db: PrivateDatabase, settings: Any, travel: Callable[[float], None]
) -> None:
    """Its id went to this worker alone, and all others sleep until they are told."""
    settings.DURABLE = {**settings.DURABLE, "POLL_SECONDS": 0.01}
    make_run()
    soon = make_run("waiting", wake_at=timezone.now() + timedelta(seconds=2))
    full, idle = Parts(db, 1), Parts(db, 1)
    assert full.claimer.tick() == 1
    assert (full.claimer.tick(), full.queue.ids) == (0, [])
    travel(2)
    assert (full.claimer.tick(), full.queue.ids) == (0, [soon.pk])
    idle.queue.ids = full.queue.ids
    assert (idle.claimer.tick(), idle.ids) == (1, [soon.pk])


def test_who_is_full_has_nobody_to_tell_where_all_ask_the_database(
    db: PrivateDatabase, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DURABLE = {**settings.DURABLE, "POLL_SECONDS": 0.01}
    make_run()
    due = make_run("waiting", wake_at=at(timedelta(seconds=-1)), priority=-1)
    parts = Parts(db, 1)
    monkeypatch.setattr(parts.queue, "gives_hints", False)
    assert (parts.claimer.tick(), parts.claimer.tick()) == (1, 0)
    assert (status_of(due), parts.queue.ids) == ("waiting", [])


def test_claims_that_follow_at_once_are_made_by_the_batch(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, waits, now = Parts(db, 100), [], [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(parts.claimer._stop, "wait", lambda seconds: waits.append(round(seconds, 6)))
    for runs in (1, 1, 2, 3, 2, 2, 1, 1, 1, 1, 1, 1):
        parts.queue.ids = [make_run().pk for _ in range(runs)]
        parts.claimer.tick()
    # Of a lone one the next is soon; where more have come meanwhile, it is put off longer and longer. One claim that
    # finds one run is no end of that, only less of it.
    assert waits == [0.001, 0.001, 0.002, 0.004, 0.008, 0.01, 0.005, 0.0025, 0.00125, 0.001, 0.001]
    now[0] += 0.001
    parts.queue.ids = [make_run().pk]
    parts.claimer.tick()
    assert len(waits) == 11


def test_a_backlog_is_claimed_without_a_pause(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, waits = Parts(db, 2), []
    monkeypatch.setattr(parts.claimer._stop, "wait", waits.append)
    parts.claimer._next_look = inf
    for _ in range(3):
        parts.queue.ids = [make_run().pk for _ in range(2)]
        assert parts.claimer.tick() == 2
        parts.free_all()
    assert waits == []


def test_many_slots_are_filled_claim_by_claim_without_a_pause(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run() for _ in range(10)]
    parts, waits = few_at_once(monkeypatch, Parts(db, 20, *runs)), []
    monkeypatch.setattr(parts.claimer._stop, "wait", waits.append)
    parts.claimer._next_look = inf
    assert [parts.claimer.tick() for _ in range(2)] == [8, 2]
    assert parts.ids == [run.pk for run in runs]
    assert waits == []


def few_at_once(monkeypatch: pytest.MonkeyPatch, parts: Parts) -> Parts:
    """Where four runs are claimed at once, and eight in a round."""
    monkeypatch.setattr(module, "AT_ONCE", 4)
    monkeypatch.setattr(module, "IN_A_ROUND", 8)
    return parts


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Callable[[Parts], list[tuple[str, int]]]:
    """What a claimer asks for and starts, in order: ids of the list, claims, runs of any kind, and how many came."""

    def noting(parts: Parts) -> list[tuple[str, int]]:
        notes: list[tuple[str, int]] = []

        def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*given: Any, **more: Any) -> Any:
                found = call(*given, **more)
                notes.append((what, len(given[0] if found is None else found)))
                return found

            return wrapped

        monkeypatch.setattr(parts.queue, "pop", noted("ids", parts.queue.pop))
        monkeypatch.setattr(parts.claimer, "_start", noted("start", parts.claimer._start))
        for name in ("claim_ids", "claim_next"):
            monkeypatch.setattr(module, name, noted(name, getattr(claiming, name)))
        return notes

    return noting


def test_all_ids_of_a_round_are_asked_for_before_the_first_runs_begin(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, told: Callable[[Parts], list[tuple[str, int]]]
) -> None:
    parts = few_at_once(monkeypatch, Parts(db, 20, *(make_run() for _ in range(10))))
    parts.claimer._next_look = inf
    notes = told(parts)
    parts.claimer.tick()
    assert notes == [("ids", 4), ("ids", 4), *2 * [("claim_ids", 4), ("start", 4)]]
    assert len(parts.queue.ids) == 2


def test_who_waited_for_a_hint_has_the_room_that_came_free_meanwhile(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, told: Callable[[Parts], list[tuple[str, int]]]
) -> None:
    parts = few_at_once(monkeypatch, Parts(db, 8, *(make_run() for _ in range(4))))
    parts.claimer._next_look = inf
    assert parts.claimer.tick() == 4
    more = [make_run() for _ in range(10)]
    notes, pop = told(parts), parts.queue.pop

    def pop_later(*given: Any) -> list[UUID]:
        monkeypatch.setattr(parts.queue, "pop", pop)
        parts.free_all()
        parts.queue.ids = [run.pk for run in more]
        return pop(*given)

    monkeypatch.setattr(parts.queue, "pop", pop_later)
    assert parts.claimer.tick() == 8
    assert notes == [("ids", 4), ("ids", 4), *2 * [("claim_ids", 4), ("start", 4)]]


def test_the_database_too_is_asked_for_as_many_runs_as_are_claimed_at_once(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, told: Callable[[Parts], list[tuple[str, int]]]
) -> None:
    for _ in range(10):
        make_run()
    parts = few_at_once(monkeypatch, Parts(db, 20))
    notes = told(parts)
    assert parts.claimer.tick() == 8
    assert notes == [("ids", 0), *2 * [("claim_next", 4), ("start", 4)]]
    assert parts.claimer.tick() == 2


def test_who_is_stopped_between_two_claims_makes_no_more_and_tells_others_of_the_rest(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run() for _ in range(8)]
    parts = few_at_once(monkeypatch, Parts(db, 20, *runs))
    parts.claimer._next_look = inf

    def start(claims: Sequence[Claim]) -> None:
        parts.started.extend(claims)
        parts.claimer._stop.set()

    monkeypatch.setattr(parts.claimer, "_start", start)
    parts.claimer._run()
    assert parts.ids == [run.pk for run in runs[:4]]
    assert {status_of(run) for run in runs[4:]} == {"queued"}
    assert parts.queue.ids == [run.pk for run in runs[4:]]


def test_who_is_stopped_while_it_waits_for_hints_takes_no_more_than_it_asked_for_and_tells_others(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, over = [make_run() for _ in range(9)], make_run(Status.SUCCEEDED)
    parts = few_at_once(monkeypatch, Parts(db, 20, *runs[:3], over, *runs[3:]))
    parts.claimer._next_look = inf
    pop = parts.queue.pop

    def stopped(*given: Any) -> list[UUID]:
        parts.claimer._stop.set()
        return pop(*given)

    monkeypatch.setattr(parts.queue, "pop", stopped)
    parts.claimer._run()
    assert (parts.ids, len(parts.queue.waits)) == ([], 1)
    assert {status_of(run) for run in runs} == {"queued"}
    assert sorted(parts.queue.ids) == sorted(run.pk for run in runs)


@pytest.mark.parametrize("when", ["during", "after"])
@pytest.mark.parametrize(("fails", "key"), [("claim_ids", None), ("claim_hinted", "a line")])
def test_who_is_stopped_where_a_claim_fails_tells_others_of_what_it_had_popped(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, when: str, fails: str, key: str | None
) -> None:
    """During the statement, or in the pause after it; of runs under a limit the second one."""
    runs = [make_run(limit_key=key) for _ in range(3)]
    parts = Parts(db, 20, *runs)
    parts.claimer._all = parts.claimer._who = replace(claimant(), limits={WORKFLOW: Bounds(concurrency=3)})
    parts.claimer._next_look = inf
    stop = parts.claimer._stop

    def fail(*_: object, **__: object) -> None:
        if when == "during":
            stop.set()
        raise OperationalError("gone")

    monkeypatch.setattr(module, fails, fail)
    monkeypatch.setattr(stop, "wait", lambda seconds: stop.set())
    parts.claimer._run()
    assert parts.ids == []
    assert sorted(parts.queue.ids) == sorted(run.pk for run in runs)


def test_who_is_stopped_tells_others_of_what_was_held_and_of_what_comes_due_soon(db: PrivateDatabase) -> None:
    held, soon, late = make_run(), make_run(Status.SCHEDULED), make_run(Status.SCHEDULED)
    for run, seconds in ((soon, 1), (late, 3600)):
        Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() + timedelta(seconds=seconds))
    parts = Parts(db, 20)
    parts.claimer._again = [held.pk, soon.pk, late.pk]
    parts.claimer._stop.set()
    parts.claimer._run()
    assert sorted(parts.queue.ids) == sorted([held.pk, soon.pk])


def test_who_is_stopped_tells_of_runs_under_a_limit_where_that_has_room(db: PrivateDatabase) -> None:
    runs = [make_run(limit_key="a line") for _ in range(3)]
    parts = Parts(db, 20)
    parts.claimer._all = parts.claimer._who = replace(claimant(), limits={WORKFLOW: Bounds(concurrency=1)})
    parts.claimer._unclaimed = [run.pk for run in runs]
    parts.claimer._stop.set()
    parts.claimer._run()
    assert len(parts.queue.ids) == 1
    assert parts.queue.ids[0] in {run.pk for run in runs}


def test_who_is_stopped_in_a_look_asks_for_nothing_else(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, told: Callable[[Parts], list[tuple[str, int]]]
) -> None:
    for _ in range(10):
        make_run()
    parts = few_at_once(monkeypatch, Parts(db, 20))
    monkeypatch.setattr(module, "claim_limited", refuse)
    notes, start = told(parts), parts.claimer._start

    def start_and_stop(claims: Sequence[Claim]) -> None:
        start(claims)
        parts.claimer._stop.set()

    monkeypatch.setattr(parts.claimer, "_start", start_and_stop)
    assert parts.claimer.tick() == 4
    assert notes == [("ids", 0), ("claim_next", 4), ("start", 4)]


def test_without_hints_a_run_is_late_by_a_poll_at_most(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = Parts(db, 8)
    monkeypatch.setattr(parts.queue, "gives_hints", False, raising=False)
    poll = durable_settings().POLL_SECONDS
    rests = [parts.claimer._seconds_to_look() for _ in range(100)]
    assert all(0.5 < rest <= poll for rest in rests)
    # As a rule a short run that has to wait for the next look is over within the poll.
    assert sum(rests) / len(rests) < 0.965 * poll


def test_with_hints_a_look_rests_no_longer_than_what_is_told_of(db: PrivateDatabase) -> None:
    """What comes due later than a sweep from now is no hint (``is_soon``): nobody would wake the look for it."""
    claimer = Parts(db, 8).claimer
    assert all(claimer._seconds_to_rest(None) <= durable_settings().REAP_SECONDS for _ in range(100))


def test_a_claimer_that_stumbled_looks_at_once(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it had popped is in no list any more."""
    claimer = Parts(db, 8).claimer
    claimer._next_look = inf

    def stumble() -> int:
        claimer._stop.set()
        raise ValueError("of nobody's doing")

    monkeypatch.setattr(claimer, "tick", stumble)
    claimer._run()
    assert claimer._next_look == 0.0


def test_without_a_backlog_the_best_goes_first(db: PrivateDatabase) -> None:
    old, best = make_run(priority=-1, queued_at=at(timedelta(hours=-1))), make_run(priority=1)
    parts = Parts(db, 1)
    assert parts.claimer.tick() == 1
    assert parts.ids == [best.pk]
    parts.free_all()
    assert parts.claimer.tick() == 1
    assert parts.ids == [best.pk, old.pk]


@pytest.mark.parametrize(
    ("slots", "busy", "waited_for"), [(1, 0, []), (4, 3, []), (7, 6, []), (8, 5, [4]), (8, 4, []), (32, 31, [16])]
)
def test_who_has_many_slots_and_few_free_waits_for_half_of_them(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch, slots: int, busy: int, waited_for: list[int]
) -> None:
    parts = Parts(db, slots, *(make_run() for _ in range(busy)))
    asked: list[int] = []
    wait = parts.slots.wait_for_room

    def wait_for_room(timeout: float, at_least: int = 1) -> int:
        if at_least > 1:
            assert timeout == module.GATHER_SECONDS
            asked.append(at_least)
        return wait(timeout, at_least)

    monkeypatch.setattr(parts.slots, "wait_for_room", wait_for_room)
    assert parts.claimer.tick() == busy
    asked.clear()
    parts.queue.ids = [make_run().pk]
    assert parts.claimer.tick() == 1
    assert asked == waited_for


def test_who_has_more_slots_than_a_claim_fills_waits_for_no_more_than_that(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = few_at_once(monkeypatch, Parts(db, 20, *(make_run() for _ in range(18))))
    parts.claimer._next_look = inf
    asked: list[int] = []
    wait = parts.slots.wait_for_room

    def wait_for_room(timeout: float, at_least: int = 1) -> int:
        asked.append(at_least)
        return wait(timeout, at_least)

    monkeypatch.setattr(parts.slots, "wait_for_room", wait_for_room)
    # Four are free before the last of these rounds: fewer than half of all.
    assert [parts.claimer.tick() for _ in range(3)] == [8, 8, 2]
    assert set(asked) == {1}


def test_ids_that_others_of_their_line_come_before_are_tried_once_more(
    db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is claimed for a hinted id may be another run: as many claims as ids do not say that none is left."""
    asked: list[list[UUID]] = []
    listed, others = [make_run() for _ in range(2)], [make_run() for _ in range(2)]
    parts = Parts(db, 8, *listed)
    parts.claimer._who = replace(claimant(), limits={"w": Bounds(concurrency=1)})
    claim = module.claim_ids

    def skip(db: PrivateDatabase, who: Claimant, ids: Sequence[UUID], **options: Any) -> list[Claim]:
        asked.append(list(ids))
        return []

    def take_others(db: PrivateDatabase, who: Claimant, ids: Sequence[UUID], **options: Any) -> list[Claim]:
        found, others[:] = others[:], []
        return claim(db, who, [run.pk for run in found], **options)

    monkeypatch.setattr(module, "claim_ids", skip)
    monkeypatch.setattr(module, "claim_hinted", take_others)
    parts.claimer._next_look = inf
    parts.claimer.tick()
    parts.claimer.tick()
    assert [set(ids) for ids in asked] == [{run.pk for run in listed}] * 2

"""The loops, tick by tick, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings
from django.db.utils import OperationalError
from django.utils import timezone

from django_durable.conf import durable_settings
from django_durable.core import clock
from django_durable.models import Run
from django_durable.queues import Ready
from django_durable.queues.database import DatabaseQueue
from django_durable.store import recovery
from django_durable.store.database import PrivateDatabase
from django_durable.worker.loops import prune as prune_module
from django_durable.worker.loops.base import LoopRunner
from django_durable.worker.loops.fit import Fit
from django_durable.worker.loops.isolate import Isolate
from django_durable.worker.loops.maintenance import maintenance
from django_durable.worker.loops.promote import Promote
from django_durable.worker.loops.prune import Prune
from django_durable.worker.loops.reap import Reap
from django_durable.worker.loops.refill import LOW_WATER, Refill
from django_durable.worker.loops.sweep import Sweep
from tests.commands.rows import a_run
from tests.store.rows import beating, child_entry, event_entry, fresh, journal_row, make_run, running, send, status_of

pytestmark = pytest.mark.django_db(transaction=True)

Travel = Callable[[float], None]
IS_SQLITE = django_settings.BACKEND == "sqlite"
LEASE, HEARTBEAT, MARGIN, RESTS = 30, 10, 5, 3


class Heard(DatabaseQueue):
    """What a list of ids would hold."""

    gives_hints = True

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[UUID] = []

    def push(self, runs: list[Ready]) -> None:  # type: ignore[override]
        self.ids += [run.id for run in runs]

    def length(self, queue: str) -> int:
        return len(self.ids)


@pytest.fixture
def queue() -> Heard:
    return Heard()


# --- the runner ------------------------------------------------------------------------------


class Job:
    """A loop that notes its ticks."""

    def __init__(self, interval: float, *answers: int | Exception) -> None:
        self.interval = interval
        self.ticks = 0
        self._answers = list(answers)

    def tick(self) -> int:
        self.ticks += 1
        answer = self._answers.pop(0) if self._answers else 0
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only where the test travels."""
    monkeypatch.setattr(clock, "monotonic", lambda: clock.offset().total_seconds())


@pytest.mark.usefixtures("frozen")
def test_a_loop_ticks_at_once_and_then_when_it_is_due(db: PrivateDatabase, travel: Travel) -> None:
    often, seldom = Job(1), Job(10)
    runner = LoopRunner(db, [often, seldom], batch=100)
    for _ in range(10):
        runner.run_due()
        runner.run_due()
        travel(1)
    assert (often.ticks, seldom.ticks) == (10, 1)
    runner.run_due()
    assert seldom.ticks == 2


def test_a_full_batch_asks_for_another_tick_at_once(db: PrivateDatabase) -> None:
    job = Job(10, 100, 100, 99)
    runner = LoopRunner(db, [job], batch=100)
    for _ in range(5):
        runner.run_due()
    assert job.ticks == 3


@pytest.mark.usefixtures("frozen")
def test_loops_that_began_together_do_not_tick_together(db: PrivateDatabase) -> None:
    jobs = [Job(10) for _ in range(30)]
    runner = LoopRunner(db, jobs, batch=100)
    runner.run_due()
    pauses = [due - clock.monotonic() for due in runner._due.values()]
    # Earlier than their interval and never later; that thirty draws of a second's width lie closer does not happen.
    assert 9 <= min(pauses) < max(pauses) - 0.3
    assert max(pauses) <= 10


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a mistake")])
def test_a_failing_loop_stops_neither_the_others_nor_itself(
    error: Exception, db: PrivateDatabase, travel: Travel, caplog: pytest.LogCaptureFixture
) -> None:
    failing, other = Job(1, error), Job(1)
    runner = LoopRunner(db, [failing, other], batch=100)
    runner.run_due()
    travel(1)
    runner.run_due()
    assert (failing.ticks, other.ticks) == (2, 2)
    assert "Job" in caplog.text


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a mistake")])
def test_a_loop_that_goes_on_failing_rests_longer_each_time(
    error: Exception, db: PrivateDatabase, travel: Travel
) -> None:
    """While the database is away, what is due at once must not ask for it all the time, nor what is due seldom."""
    failing, seldom = Job(0.01, *[error] * 8), Job(60, error, error)
    runner = LoopRunner(db, [failing, seldom], batch=100)
    rests = []
    for number in range(10):
        runner.run_due()
        rests.append(runner._due[failing] - clock.monotonic())
        # Tried again at once, since it may be no more than a session that was lost; then when it is due.
        assert (runner._due[seldom] - clock.monotonic() < 1) is (number == 0)
        assert seldom.ticks == min(number + 1, 2)
        travel(6)
    longest = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.01, 0.01]
    assert failing.ticks == 10
    assert all(0.9 * most <= rest <= most for rest, most in zip(rests, longest, strict=True))


def test_a_worker_prunes_as_well(db: PrivateDatabase, queue: Heard) -> None:
    old = a_run(age=timedelta(days=1000))
    LoopRunner(db, maintenance(db, queue, ["default"], lambda word: None), batch=1000).run_due()
    assert not Run.objects.filter(pk=old.pk).exists()


def test_pruning_hurries_while_there_is_much_to_delete(db: PrivateDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_module, "BATCH", 2)
    for _ in range(3):
        a_run(age=timedelta(days=1000))
    make_run("queued")
    prune, rests = Prune(db), []
    for _ in range(3):
        prune.tick()
        rests.append(prune.interval)
    assert rests[0] == prune_module.BETWEEN_FULL_STEPS and rests[-1] > prune_module.BETWEEN_FULL_STEPS
    assert Run.objects.count() == 1


# --- each loop -------------------------------------------------------------------------------


@pytest.mark.behaviour("RUN-02b")
def test_promote_queues_what_is_due_and_tells(db: PrivateDatabase, queue: Heard, travel: Travel) -> None:
    asleep = make_run("waiting")
    promote = Promote(db, queue)
    assert promote.tick() == 0
    travel(3601)
    assert promote.tick() == 1
    assert status_of(asleep) == "queued"
    assert queue.ids == [asleep.pk]


def settled(reap: Reap) -> Reap:
    """One that has been there for a while, and the database with it."""
    reap._was_away = False
    return reap


def test_who_has_just_come_does_not_know_how_long_the_database_was_away(
    db: PrivateDatabase, queue: Heard, travel: Travel
) -> None:
    claim, reap = running(db), Reap(db, queue)
    travel(2 * LEASE)
    assert two_ticks(reap, travel) == ([0, 0] if IS_SQLITE else [0, 1])
    assert IS_SQLITE or status_of(claim.run_id) == "queued"


def two_ticks(reap: Reap, travel: Travel) -> list[int]:
    first = reap.tick()
    travel(HEARTBEAT)
    return [first, reap.tick()]


# On SQLite a live holder may have waited for the write lock: a lapse is seen twice, a heartbeat apart.
ONE_IS_TAKEN = [0, 1] if IS_SQLITE else [1, 0]


@pytest.mark.behaviour("RUN-05b")
def test_reap_takes_a_lapsed_lease_from_a_process_that_lives(db: PrivateDatabase, queue: Heard, travel: Travel) -> None:
    claim, reap = running(db), settled(Reap(db, queue))
    beating(leased_by(claim.run_id), ago=timedelta(seconds=-2 * LEASE))
    assert two_ticks(reap, travel) == [0, 0]
    travel(LEASE)
    assert two_ticks(reap, travel) == ONE_IS_TAKEN
    assert (status_of(claim.run_id), queue.ids) == ("queued", [claim.run_id])


def test_reap_gives_nobody_the_run_of_a_dead_process_but_one_that_is_alone(
    db: PrivateDatabase, queue: Heard, travel: Travel
) -> None:
    claim, reap = running(db), settled(Reap(db, queue))
    travel(LEASE + 1)
    assert two_ticks(reap, travel) == ONE_IS_TAKEN
    assert (fresh(claim.run_id).suspect, queue.ids) == (True, [])


def test_reap_leaves_a_lease_that_was_renewed_between_its_two_looks(
    db: PrivateDatabase, queue: Heard, travel: Travel
) -> None:
    claim, reap = running(db), settled(Reap(db, queue))
    beating(leased_by(claim.run_id))
    # On top come the pauses of a slow machine.
    travel(LEASE - HEARTBEAT / 2)
    assert reap.tick() == 0
    recovery.renew(db, [claim.lease], lease=LEASE)
    travel(HEARTBEAT)
    assert reap.tick() == 0
    assert status_of(claim.run_id) == "running"


def test_after_an_outage_nobody_is_taken_for_dead_before_all_who_live_could_say_so(
    db: PrivateDatabase, queue: Heard, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, dead, reap = running(db), running(db), settled(Reap(db, queue))
    lose_the_session(reap, monkeypatch)
    # So long was it away that every lease has lapsed and every process seems silent. Now it is back.
    travel(2 * LEASE)
    assert reap.tick() == 0
    assert 0 < reap.interval < LEASE / 3
    recovery.renew(db, [alive.lease], lease=LEASE)
    travel(reap.interval)
    assert sum(two_ticks(reap, travel)) == 1
    assert (status_of(alive.run_id), status_of(dead.run_id)) == ("running", "queued")
    assert reap.interval == durable_settings().REAP_SECONDS


def lose_the_session(reap: Reap, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        away.setattr(recovery, "reap", refuse)
        away.setattr(recovery, "find_lapsed", refuse)
        with pytest.raises(OperationalError):
            reap.tick()


def test_a_session_that_is_lost_keeps_nobody_s_runs_waiting(
    db: PrivateDatabase, queue: Heard, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looked a moment ago knows that no lease has lapsed since because nobody could renew it.

    Found by the hour of chaos, seed 20261126: the reaper rested as after an outage.
    """
    dead, reap = running(db), settled(Reap(db, queue))
    travel(LEASE - 5)
    assert reap.tick() == 0
    lose_the_session(reap, monkeypatch)
    travel(6)
    # SQLite answers looks also while somebody holds the one write lock: there no look says that others could beat.
    assert two_ticks(reap, travel) == ([0, 0] if IS_SQLITE else ONE_IS_TAKEN)
    assert status_of(dead.run_id) == ("running" if IS_SQLITE else "queued")


def test_after_an_outage_of_most_of_a_lease_all_who_live_are_waited_for(
    db: PrivateDatabase, queue: Heard, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was to beat when it began has a lease that may be over."""
    reap = settled(Reap(db, queue))
    assert reap.tick() == 0
    lose_the_session(reap, monkeypatch)
    travel(LEASE - HEARTBEAT - MARGIN - RESTS)
    assert reap.tick() == 0
    assert reap.interval < durable_settings().REAP_SECONDS


def test_two_outages_with_a_look_between_them_are_one(
    db: PrivateDatabase, queue: Heard, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that look nobody who was cut off had the time to beat."""
    reap = settled(Reap(db, queue))
    assert reap.tick() == 0
    lose_the_session(reap, monkeypatch)
    travel(8)
    assert reap.tick() == 0
    reap._was_away = True
    travel(8)
    assert reap.tick() == 0
    assert reap.interval < durable_settings().REAP_SECONDS


def refuse(*args: object, **more: object) -> None:
    raise OperationalError("the server is starting up")


def leased_by(run_id: UUID) -> UUID:
    worker = fresh(run_id).leased_by
    assert worker is not None
    return worker


@pytest.mark.behaviour("RUN-16c")
def test_sweep_wakes_what_nobody_woke(db: PrivateDatabase, queue: Heard) -> None:
    run, other = make_run("waiting", waiting_on="event:packed"), make_run("waiting", waiting_on="event:packed")
    for one in (run, other):
        journal_row(one, event_entry())
    send(run.pk)
    sweep = Sweep(db, queue)
    assert [sweep.tick(), sweep.tick()] == [1, 0]
    assert (status_of(run), status_of(other), queue.ids) == ("queued", "waiting", [run.pk])


def test_refill_puts_lost_ids_back_when_the_list_runs_low(db: PrivateDatabase, queue: Heard) -> None:
    low, high = make_run(priority=-1), make_run(priority=1)
    make_run(queue="other")
    make_run(suspect=True)
    refill = Refill(db, queue, ["default"])
    refill.tick()
    assert queue.ids == [high.pk, low.pk]
    queue.ids = [uuid4()] * LOW_WATER
    refill.tick()
    assert len(queue.ids) == LOW_WATER


def test_refill_asks_nobody_where_there_is_no_list(db: PrivateDatabase, queue: Heard) -> None:
    make_run()
    queue.gives_hints = False
    Refill(db, queue, ["default"]).tick()
    assert queue.ids == []


def test_isolate_tells_how_many_suspects_wait(db: PrivateDatabase) -> None:
    told: list[int] = []
    isolate = Isolate(db, ["default"], told.append)
    make_run(workflow="app.doubling")
    # For these, the process that the supervisor starts would find nothing to do, and be started for ever.
    make_run(workflow="app.doubling", suspect=True, queue="elsewhere")
    make_run(workflow="gone.away", suspect=True)
    isolate.tick()
    assert told == []
    make_run(workflow="app.doubling", suspect=True)
    isolate.tick()
    make_run(workflow="app.doubling", suspect=True)
    isolate.tick()
    assert told == [1, 2]


@pytest.mark.behaviour("RUN-11b")
def test_fit_blocks_what_nobody_has_known_for_a_while(queue: Heard, travel: Travel) -> None:
    run = make_run(workflow="gone.away", queued_at=timezone.now())
    # With no worker alive nobody could say what is known.
    beating(uuid4(), ago=timedelta(seconds=-3 * LEASE), workflows=["app.doubling"])
    fit = Fit(queue, ["default"])
    travel(2 * LEASE - HEARTBEAT)
    fit.tick()
    assert status_of(run) == "queued"
    travel(HEARTBEAT + 1)
    fit.tick()
    assert (status_of(run), fresh(run).block_reason) == ("blocked", "unknown_workflow")


def test_fit_leaves_what_a_worker_knew_until_a_moment_ago(queue: Heard, travel: Travel) -> None:
    run = make_run(workflow="gone.away")
    travel(2 * LEASE + 1)
    beating(uuid4(), ago=timedelta(seconds=-LEASE), workflows=["gone.away"])
    Fit(queue, ["default"]).tick()
    assert status_of(run) == "queued"


def test_fit_lets_the_parent_go_on_of_a_child_that_nobody_knows_how_to_stop(queue: Heard, travel: Travel) -> None:
    parent = make_run("waiting", waiting_on="child:child", wake_at=None)
    journal_row(parent, child_entry())
    asked = {"cancel_requested_at": timezone.now(), "workflow": "gone.away"}
    child = make_run(parent_id=parent.pk, parent_path="child", **asked)
    beating(uuid4(), ago=timedelta(seconds=-3 * LEASE), workflows=["app.doubling"])
    travel(2 * LEASE + 1)
    Fit(queue, ["default"]).tick()
    assert (status_of(child), status_of(parent), queue.ids) == ("cancelled", "queued", [parent.pk])


@pytest.mark.behaviour("RUN-11c")
def test_fit_takes_up_what_has_come_back(queue: Heard) -> None:
    back = make_run("blocked", workflow="app.doubling", block_reason="unknown_workflow")
    other = make_run("blocked", workflow="gone.away", block_reason="unknown_workflow")
    assert Fit(queue, ["default"]).tick() == 1
    assert (status_of(back), status_of(other), queue.ids) == ("queued", "blocked", [back.pk])

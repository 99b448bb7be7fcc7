"""What a worker counts of its runs, and how the counts come into the table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.db.utils import OperationalError

from django_durable import Context, Retry, durable_workflow, get_run
from django_durable.client.statistics import Counts, WorkflowCounts, by_queue, by_workflow
from django_durable.core import clock
from django_durable.core.journal.outcomes import Completed, Failed
from django_durable.core.journal.states import Status
from django_durable.models import Tally
from django_durable.queues.database import DatabaseQueue
from django_durable.store.claiming import Claim
from django_durable.store.database import PrivateDatabase, Row
from django_durable.store.tallying import Counted
from django_durable.worker import process as module
from django_durable.worker import tallies as tallies_module
from django_durable.worker.process import WorkerOptions, WorkerProcess
from django_durable.worker.tallies import OTHERS, STEPS_MOST, Tallies, failing_step
from tests.store.rows import at, fresh, running

pytestmark = pytest.mark.django_db(transaction=True)

Travel = Callable[[float], None]
DAY = timedelta(days=1)


class Gone(ValueError):
    """What the steps here fail with."""


def refuse() -> None:
    raise Gone


def cancel_own_run(run_id: Any) -> None:
    get_run(run_id).cancel()


@durable_workflow(name="tallies.working")
def working(ctx: Context, nap: float = 0) -> None:
    ctx.step("do", int)
    if nap:
        ctx.sleep("nap", nap)
        ctx.step("again", int)


@durable_workflow(name="tallies.failing", step_retry=Retry(max_attempts=1))
def failing(ctx: Context, number: int) -> None:
    ctx.join("both", {"pay": lambda ctx: ctx.step("charge", refuse, key=number)})


@durable_workflow(name="tallies.raising", retry=Retry(max_attempts=1))
def raising(ctx: Context) -> None:
    raise Gone


@durable_workflow(name="tallies.cancelling")
def cancelling(ctx: Context) -> None:
    ctx.step("cancel", cancel_own_run, ctx.run_id)
    ctx.step("never", int)


class Flaky(PrivateDatabase):
    """Refuses the next ``failures`` statements of the statistics, and counts those that it takes."""

    failures, taken = 0, 0

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        if "django_durable_tally" in sql:
            if self.failures:
                self.failures -= 1
                raise OperationalError("away")
            self.taken += 1
        return super().rows(sql, **parameters)


@pytest.fixture
def flaky() -> Iterator[Flaky]:
    db = Flaky()
    yield db
    db.close()


@pytest.fixture
def tallies() -> Tallies:
    return Tallies()


def to_the_next(minutes: int, claim: Claim, travel: Travel) -> None:
    """Travel to where so many minutes begin."""
    now = claim.journal.now()
    travel(60 * minutes - (now.minute % minutes * 60 + now.second + now.microsecond / 1e6) + 0.1)


def counted(tallies: Tallies) -> dict[Counted, int]:
    return {Counted(*one): count for one, count in tallies._counts.items()}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    # A worker closes its process's queue when it ends, and this process lives on.
    monkeypatch.setattr(module, "current_queue", DatabaseQueue)

    def work() -> None:
        process = WorkerProcess(uuid4(), WorkerOptions(burst=True, concurrency=4))
        process.run()
        for database in (process._claimer._db, process._heartbeat._db, process._loops._db):
            database.close()
        connections.close_all()

    return work


def test_a_worker_that_ends_has_told_what_it_did(work: Callable[[], None]) -> None:
    for _ in range(3):
        working.enqueue()
    working.enqueue(nap=0.05)
    for number in range(2):
        failing.enqueue(number)
    raising.enqueue()
    cancelling.enqueue()
    work()
    assert by_queue(DAY) == {"default": Counts(started=8, succeeded=4, failed=3, cancelled=1)}
    found = by_workflow(DAY)
    assert {name: (one.started, one.succeeded, one.failed, one.cancelled) for name, one in found.items()} == {
        "tallies.working": (4, 4, 0, 0),
        "tallies.failing": (2, 0, 2, 0),
        "tallies.raising": (1, 0, 1, 0),
        "tallies.cancelling": (1, 0, 0, 1),
    }
    assert {name: one.failing_step for name, one in found.items()} == {
        "tallies.working": None,
        # The innermost, and without its key.
        "tallies.failing": ("both/pay/charge", 2),
        "tallies.raising": None,
        "tallies.cancelling": None,
    }
    assert found["tallies.cancelling"] == WorkflowCounts(started=1, cancelled=1)
    assert 0 < (found["tallies.working"].p50 or 0) < 60


def test_counts_come_with_the_heartbeat_and_only_where_there_are_any(
    db: PrivateDatabase, flaky: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "current_queue", DatabaseQueue)
    process = WorkerProcess(uuid4(), WorkerOptions(loops=False))
    process._beat(flaky)
    assert flaky.taken == 0
    process._aftermath.tallies.started(running(db))
    process._beat(flaky)
    process._beat(flaky)
    assert flaky.taken == 1
    assert Tally.objects.get().started == 1
    process._db.close()


def test_a_second_claim_is_no_start(db: PrivateDatabase, tallies: Tallies) -> None:
    tallies.started(running(db, claims=1, started_at=at(timedelta(minutes=-1))))
    assert counted(tallies) == {}


def test_what_goes_on_is_no_end(db: PrivateDatabase, tallies: Tallies) -> None:
    for status in set(Status) - {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED}:
        tallies.ended(running(db), status, None)
    assert counted(tallies) == {}


def test_a_run_has_lasted_since_its_first_claim(db: PrivateDatabase, tallies: Tallies, travel: Travel) -> None:
    claim = running(db, claims=3, started_at=at(timedelta(seconds=-1000)))
    travel(500)
    tallies.ended(claim, Status.SUCCEEDED, Completed("null"))
    tallies.flush(db)
    assert by_workflow(DAY)["tests.work"].p50 == pytest.approx(1500, rel=0.1)
    # As the rows tell it.
    run = fresh(claim.run_id)
    assert clock.monotonic() - claim.started == pytest.approx((clock.utcnow() - run.started_at).total_seconds(), abs=5)


def test_minutes_are_the_database_s_and_pass(db: PrivateDatabase, tallies: Tallies, travel: Travel) -> None:
    claim = running(db)
    to_the_next(1, claim, travel)
    began = claim.journal.now().replace(second=0, microsecond=0)
    # At 0 s, 30 s, 60 s …
    for _ in range(5):
        tallies.started(claim)
        travel(30)
    assert {(one.minute - began).total_seconds(): count for one, count in counted(tallies).items()} == {
        0: 2,
        60: 2,
        120: 1,
    }
    assert abs(began - clock.utcnow()) < timedelta(minutes=3)


@pytest.mark.parametrize("failures", [1, 3])
def test_what_the_database_refuses_is_kept_for_the_next_beat(
    failures: int, flaky: Flaky, db: PrivateDatabase, tallies: Tallies, caplog: pytest.LogCaptureFixture
) -> None:
    flaky.failures = failures
    for number in range(failures):
        tallies.started(running(db))
        with caplog.at_level(logging.WARNING, "django_durable"):
            tallies.flush(flaky)
        assert len(caplog.messages) == number + 1
        assert not Tally.objects.exists()
    tallies.started(running(db))
    tallies.flush(flaky)
    assert by_queue(DAY)["default"].started == failures + 1


def test_of_what_is_kept_for_too_long_the_newest_stays(
    flaky: Flaky, db: PrivateDatabase, tallies: Tallies, travel: Travel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies_module, "KEPT_MOST", 3)
    flaky.failures = 5
    claim = running(db)
    to_the_next(1, claim, travel)
    for _ in range(5):
        tallies.started(claim)
        tallies.flush(flaky)
        travel(60)
    assert [(claim.journal.now() - one.minute) // timedelta(minutes=1) for one in counted(tallies)] == [3, 2, 1]


def failure(step: str) -> Failed:
    return Failed({"type": "Gone", "culprits": [step, "outer"], "step": "outer"})


def test_so_many_names_of_steps_are_told_and_then_the_rest_together(
    db: PrivateDatabase, tallies: Tallies, travel: Travel
) -> None:
    claim = running(db)

    def fail(number: int) -> None:
        tallies.ended(claim, Status.FAILED, failure(f"step-{number}"))

    def told() -> dict[str, int]:
        found: dict[str, int] = {}
        for one, count in counted(tallies).items():
            if one.step is not None:
                found[one.step] = found.get(one.step, 0) + count
        return found

    to_the_next(10, claim, travel)
    for number in [*range(STEPS_MOST + 5), 0]:
        fail(number)
    names = {f"step-{number}": 1 + (number == 0) for number in range(STEPS_MOST)}
    assert told() == names | {OTHERS: 5}
    # A minute on they are the same ones; other ten minutes have other names.
    travel(60)
    fail(1000)
    assert told() == names | {OTHERS: 6}
    travel(600)
    fail(1000)
    assert told() == names | {OTHERS: 6, "step-1000": 1}


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ({"culprits": ["import/rows[17]/save[a%2Fb]", "import"], "step": "import"}, "import/rows/save"),
        ({"step": "charge"}, "charge"),
        ({"type": "ValueError"}, None),
        ({"culprits": []}, None),
        ({"culprits": [None]}, None),
        ({"step": "x" * 300 + "end"}, "…" + "x" * 196 + "end"),
    ],
)
def test_the_step_that_a_run_failed_with(error: dict[str, Any], step: str | None) -> None:
    assert failing_step(Failed(error)) == step


def test_a_claim_tells_since_when_its_run_is_worked_on(db: PrivateDatabase) -> None:
    before = clock.monotonic()
    first = running(db)
    later: Claim = running(db, claims=1, started_at=at(timedelta(hours=-2)))
    assert before <= first.started <= clock.monotonic()
    assert first.started - later.started == pytest.approx(7200, abs=5)

"""An open transaction that has started a run of a key, and who works on that key meanwhile: SQLite has one writer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from django_durable import Context, durable_workflow
from django_durable.core import clock
from django_durable.core.ids import uuid7
from django_durable.core.journal.journal import NewRun
from django_durable.core.limits import Meeting
from django_durable.exceptions import RunLocked
from django_durable.models import Run
from django_durable.store import locking
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.meeting import lock_starts, start_or_meet
from django_durable.testing import run_until_idle
from tests.app.limits import newest, one_live, settled, tenant_of
from tests.client.test_meeting import OpenStart
from tests.schedules.making import fire_loop, make_schedule, move_to, next_of, outcomes
from tests.store.parallel import Threads, answer, session, wait_until_blocked
from tests.store.rows import status_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("possible_tables")]


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads() as threads:
        yield threads


@pytest.fixture
def db() -> Iterator[PrivateDatabase]:
    db = PrivateDatabase()
    yield db
    db.close()


@pytest.fixture
def _repeatable_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the transactions of connections that are made from now on begin with."""
    options = connection.settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "isolation_level", IsolationLevel.REPEATABLE_READ)


@pytest.fixture
def _unmoved_clock() -> Iterator[None]:
    yield
    clock.set_offset(timedelta(0))


@pytest.mark.usefixtures("_unmoved_clock")
def test_a_schedule_waits_for_no_open_start(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    # So long others wait.
    monkeypatch.setattr(locking, "LOCK_SECONDS", 60.0)
    loop = fire_loop(one_live)
    row = make_schedule(workflow=one_live.name, input='{"tenant":"a"}')
    first = OpenStart(threads, one_live)
    move_to(next_of(row))
    before = clock.monotonic()
    with pytest.raises(RunLocked, match=r"start of 'app\.one_live:a' is held") as locked_out:
        loop.fire(row.pk)
    assert (locked_out.value.keys, locked_out.value.run_ids) == (["app.one_live:a"], [])
    assert clock.monotonic() - before < 20
    assert outcomes(row) == [], "the instant stays due"
    first.finish(fails=False)
    loop.fire(row.pk)
    assert outcomes(row) == ["skipped: overlap"]


def test_an_open_start_is_in_nobodys_way_who_works_on_the_key(threads: Threads) -> None:
    """Its transaction may be a long one; the runs of the key are claimed under another lock."""
    waiting = one_live.enqueue("a")
    run_until_idle()
    waiting.send_event("go")
    first = OpenStart(threads, one_live)
    run_until_idle()
    first.finish(fails=False)
    assert status_of(waiting.id) == "succeeded"


@durable_workflow(name="meeting.starting_two")
def starting_two(ctx: Context) -> None:
    ctx.step("start", lambda: len(one_live.enqueue_many([{"tenant": "b"}, {"tenant": "a"}])))


def test_a_step_takes_the_keys_of_many_starts_in_their_order(threads: Threads, db: PrivateDatabase) -> None:
    """As who starts them outside of a step does: else the two would wait for each other."""
    first = OpenStart(threads, one_live)
    run = starting_two.enqueue()
    working = threads.start(run_until_idle)
    wait_until_blocked(db, first.session)
    try:
        answer(threads.start(one_live.enqueue, "b"))
    finally:
        first.finish(fails=False)
    answer(working)
    assert run.result() is None


def test_a_start_waits_only_so_long_for_the_run_that_it_would_put_off(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_SECONDS", 0.1)
    run = settled.enqueue("a", text="one")
    with transaction.atomic():
        run.cancel()
        with pytest.raises(RunLocked, match=str(run.id)):
            answer(threads.start(settled.enqueue, "a", text="two"))
    assert settled.enqueue("a", text="three").id != run.id


@durable_workflow(name="meeting.with_child", singleton="cancel_running", concurrency_key=tenant_of)
def with_child(ctx: Context, tenant: str) -> None:
    ctx.run_workflow("child", waits)


@durable_workflow(name="meeting.waits")
def waits(ctx: Context) -> None:
    ctx.wait_for_event("go")


@pytest.mark.parametrize("workflow", [settled, newest, with_child], ids=["debounce", "cancel_running", "children"])
def test_many_starts_lock_the_runs_that_they_act_on_in_the_order_of_their_ids(
    threads: Threads, db: PrivateDatabase, workflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every verb does: in the order of the starts, the two would wait for each other."""
    monkeypatch.setattr(locking, "LOCK_SECONDS", 60.0)
    for tenant in "ab":
        workflow.enqueue(tenant)
        run_until_idle()
    acted_on = waits if workflow is with_child else workflow
    first, second = Run.objects.for_workflow(acted_on).order_by("pk")
    with transaction.atomic():
        Run.objects.select_for_update(no_key=True).get(pk=first.pk)
        starting = threads.start(workflow.enqueue_many, [{"tenant": "b"}, {"tenant": "a"}])
        wait_until_blocked(db, session(Database()))
        assert Run.objects.select_for_update(no_key=True, nowait=True).get(pk=second.pk) == second
    assert len(answer(starting)) == 2


def test_a_run_that_a_verb_makes_live_meanwhile_is_left_alone(threads: Threads, db: PrivateDatabase) -> None:
    """Whoever holds it may wait for one that these starts have locked."""
    one, other = settled.enqueue("a"), settled.enqueue("b")
    other.pause()
    new = [
        NewRun(uuid7(), settled.name, '{"tenant":"x"}', run_after=30, limit_key=f"app.settled:{key}") for key in "ab"
    ]
    for run in new:
        run.meeting = Meeting.DEBOUNCE
    with transaction.atomic():
        within = lock_starts(Database(), new)
        answer(threads.start(other.resume))
        with db.transaction():
            db.rows("SELECT id FROM django_durable_run WHERE id = %(id)s FOR NO KEY UPDATE", id=str(other.id))
            done = start_or_meet(Database(), new, within=within)
    assert done.run_ids == [one.id, new[1].id]


@durable_workflow(name="meeting.by_key")
def by_key(ctx: Context, tenant: str, text: str) -> None:
    pass


@pytest.mark.usefixtures("_repeatable_read")
@pytest.mark.parametrize(
    "workflow", [settled, one_live, by_key.using(idempotency_key="k")], ids=["debounce", "skip", "idempotency key"]
)
def test_a_start_that_waited_sees_the_first_whatever_the_project_s_isolation(
    threads: Threads, db: PrivateDatabase, workflow: Any
) -> None:
    first = OpenStart(threads, workflow)
    second = threads.start(lambda: workflow.enqueue("a", text="first").id)
    wait_until_blocked(db, first.session)
    first.finish(fails=False)
    assert answer(second) == first.run_id

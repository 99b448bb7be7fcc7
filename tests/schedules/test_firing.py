"""The fire loop, tick by tick with a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from django_durable.core.payloads.codec import decode
from django_durable.exceptions import DurableError
from django_durable.models import Audit, Fire, Payload, Run, Schedule
from django_durable.queues.current import current_queue
from django_durable.queues.ready import Ready
from django_durable.signals import run_cancelled, run_enqueued, schedule_fired
from django_durable.store import scheduling
from django_durable.store.database import Database
from django_durable.store.sql import schedules
from tests.schedules.making import (
    DAY,
    HOUR,
    NIGHTLY,
    advance,
    at,
    code_of,
    end,
    fire_loop,
    fires,
    fresh,
    make_schedule,
    make_workflow,
    move_to,
    next_of,
    outcomes,
    resume,
    runs,
    tick_until_done,
)
from tests.schedules.noon import NOON
from tests.store.rows import make_run

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.usefixtures("before_noon")]

SECOND = timedelta(seconds=1)


def due(row: Schedule) -> datetime:
    """Move the clock to the row's next instant, and return it."""
    found = fresh(row).next_fire_at
    assert found is not None
    move_to(found)
    return found


# --- one instant -----------------------------------------------------------------------------


@pytest.mark.behaviour("SCHED-01a")
def test_a_due_schedule_starts_a_run_and_moves_on() -> None:
    row, loop = make_schedule(input='{"day": "monday"}'), fire_loop()
    assert loop.tick() == 0
    assert due(row) == NOON
    assert loop.tick() == 1
    (run,) = runs()
    assert (run.workflow, run.status, run.queue) == (NIGHTLY, "queued", "default")
    assert decode(Payload.objects.get(run_id=run.pk, kind="input").data) == {"day": "monday"}
    fire = Fire.objects.get()
    assert (fire.schedule_id, fire.scheduled_for, fire.outcome, fire.run_id) == (row.pk, NOON, "fired", run.pk)
    assert fire.fired_at >= NOON
    assert (fresh(row).next_fire_at, fresh(row).last_scheduled_for) == (NOON + HOUR, NOON)
    assert loop.tick() == 0


def test_a_run_gets_the_options_of_its_workflow() -> None:
    row = make_schedule()
    loop = fire_loop(make_workflow(queue="night", priority=7, timeout=90))
    due(row)
    loop.tick()
    (run,) = runs()
    assert (run.queue, run.priority) == ("night", 7)
    assert run.deadline_at is not None
    assert timedelta(seconds=88) < run.deadline_at - NOON < timedelta(seconds=95)


@pytest.mark.behaviour("SCHED-01c")
def test_an_explicit_none_in_the_input_is_kept() -> None:
    loop = fire_loop(make_workflow())
    row = make_schedule(input='{"note": null}')
    due(row)
    loop.tick()
    assert decode(Payload.objects.get(kind="input").data) == {"note": None}


def test_the_same_instant_never_fires_twice_whatever_is_done_to_the_row() -> None:
    row, loop = make_schedule(overlap="allow"), fire_loop()
    due(row)
    loop.tick()
    Schedule.objects.update(next_fire_at=NOON)
    tick_until_done(loop)
    assert len(runs()) == 1
    assert fresh(row).next_fire_at == NOON + HOUR


def test_the_next_instant_follows_from_the_stored_one_although_the_clock_goes_back() -> None:
    row, loop = make_schedule(overlap="allow"), fire_loop()
    due(row)
    loop.tick()
    advance(-2 * HOUR)
    loop = fire_loop()
    assert loop.tick() == 0
    assert fresh(row).next_fire_at == NOON + HOUR


def test_a_disabled_schedule_does_not_fire() -> None:
    row, loop = make_schedule(enabled=False, next_fire_at=NOON), fire_loop()
    move_to(NOON + SECOND)
    assert loop.tick() == 0
    assert fires(row) == [] and runs() == []


def test_jitter_delays_the_run_and_not_the_schedule() -> None:
    row, loop = make_schedule(jitter=600.0), fire_loop()
    due(row)
    loop.tick()
    (run,) = runs()
    assert run.status == "scheduled" and run.wake_at is not None
    delay = scheduling.delay_of(row, NOON)
    assert abs((run.wake_at - NOON).total_seconds() - delay) < 5
    assert fresh(row).next_fire_at == NOON + HOUR


def test_a_crash_before_the_commit_leaves_nothing_and_the_next_tick_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    row, loop = make_schedule(), fire_loop()
    due(row)

    def crash(*args: object, **options: object) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(scheduling, "start_or_meet", crash)
        with pytest.raises(SystemExit):
            loop.tick()
    assert fires(row) == [] and runs() == [] and fresh(row).next_fire_at == NOON
    assert fire_loop().tick() == 1
    assert outcomes(row) == ["fired"] and len(runs()) == 1


def test_at_a_change_of_the_clocks_each_instant_has_one_run() -> None:
    move_to(at("2040-10-27T12:00:00"))  # Berlin sets its clocks back on the 28th at 1:00 UTC
    row = make_schedule("30 2 * * *", timezone="Europe/Berlin", overlap="allow")
    loop = fire_loop()
    for _ in range(12):
        advance(timedelta(minutes=30))
        tick_until_done(loop)
    for _ in range(36):
        advance(HOUR)
        tick_until_done(loop)
    assert [instant for instant, _ in fires(row)] == [at("2040-10-28T00:30:00"), at("2040-10-29T01:30:00")]
    assert len(runs()) == 2


# --- overlap ---------------------------------------------------------------------------------


def fire_twice(row: Schedule, ending: str | None = None) -> Any:
    loop = fire_loop()
    due(row)
    loop.tick()
    if ending is not None:
        end(ending)
    due(row)
    tick_until_done(loop)
    return loop


@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel_previous"])
@pytest.mark.parametrize("ending", ["succeeded", "failed", "cancelled"])
def test_a_run_that_is_over_is_in_nobodys_way(overlap: str, ending: str) -> None:
    row = make_schedule(overlap=overlap)
    fire_twice(row, ending)
    assert outcomes(row) == ["fired", "fired"]
    assert sorted(run.status for run in runs()) == sorted([ending, "queued"])


@pytest.mark.behaviour("SCHED-01b")
def test_skip_passes_over_an_instant_while_a_run_is_live_and_fires_again_after() -> None:
    row = make_schedule()
    loop = fire_twice(row)
    assert fires(row) == [(NOON, "fired"), (NOON + HOUR, "skipped: overlap")]
    assert len(runs()) == 1
    end("succeeded")
    due(row)
    loop.tick()
    assert outcomes(row) == ["fired", "skipped: overlap", "fired"]


def test_allow_starts_beside_a_live_run() -> None:
    row = make_schedule(overlap="allow")
    fire_twice(row)
    assert [run.status for run in runs()] == ["queued", "queued"]


def test_queue_holds_the_instant_until_the_run_has_ended() -> None:
    row = make_schedule(overlap="queue")
    loop = fire_twice(row)
    assert outcomes(row) == ["fired"] and fresh(row).next_fire_at == NOON + HOUR
    advance(timedelta(minutes=10))
    loop.tick()
    assert len(runs()) == 1
    end("succeeded")
    advance(2 * SECOND)
    tick_until_done(loop)
    assert fires(row) == [(NOON, "fired"), (NOON + HOUR, "fired")]
    assert fresh(row).next_fire_at == NOON + 2 * HOUR


@pytest.mark.parametrize(("catch_up", "expected"), [("latest", [0, 3]), ("all", [0, 1, 2, 3]), ("none", [0])])
def test_queue_asks_catch_up_when_several_instants_have_waited(catch_up: str, expected: list[int]) -> None:
    row = make_schedule(overlap="queue", catch_up=catch_up)
    loop = fire_twice(row)
    move_to(NOON + 3 * HOUR + HOUR / 2)
    for _ in range(5):
        tick_until_done(loop)
        end("succeeded")
        advance(2 * SECOND)
    fired = [instant for instant, outcome in fires(row) if outcome == "fired"]
    assert fired == [NOON + number * HOUR for number in expected]
    assert fresh(row).next_fire_at == NOON + 4 * HOUR


def test_a_schedule_that_waits_for_its_run_takes_nobodys_place(monkeypatch: pytest.MonkeyPatch) -> None:
    held = make_schedule(overlap="queue")
    fire_twice(held)
    other = make_schedule(name="other", next_fire_at=NOON + HOUR + SECOND)
    monkeypatch.setattr("django_durable.worker.loops.fire.BATCH", 1)
    move_to(NOON + HOUR + 2 * SECOND)
    fire_loop().tick()
    assert outcomes(other) == ["fired"] and outcomes(held) == ["fired"]


def test_cancel_previous_cancels_what_is_live_and_starts(django_capture_on_commit_callbacks: Any) -> None:
    row, told = make_schedule(overlap="cancel_previous"), list[Any]()

    def hear(sender: Any, run_id: Any, **kwargs: Any) -> None:
        told.append(run_id)

    run_cancelled.connect(hear)
    with django_capture_on_commit_callbacks(execute=True):
        fire_twice(row)
    assert told == [runs()[0].pk]
    assert [run.status for run in runs()] == ["cancelled", "queued"]
    assert outcomes(row) == ["fired", "fired"]
    audit = Audit.objects.get()
    assert (audit.run_id, audit.verb) == (runs()[0].pk, "cancel")
    assert "fired again" in audit.reason


def test_cancel_previous_asks_a_run_that_works_once() -> None:
    row = make_schedule(overlap="cancel_previous")
    loop = fire_loop()
    due(row)
    loop.tick()
    (first,) = runs()
    Run.objects.update(
        status="running", claims=1, lease_token=first.pk, leased_by=first.pk, lease_expires_at=NOON + 9 * HOUR
    )
    for _ in range(2):
        due(row)
        tick_until_done(loop)
    first.refresh_from_db()
    assert first.status == "running" and first.cancel_requested_at is not None
    assert Audit.objects.filter(run_id=first.pk).count() == 1
    assert [run.status for run in runs()[1:]] == ["cancelled", "queued"]


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_a_run_that_was_resumed_is_live_again(ending: str) -> None:
    row = make_schedule()
    loop = fire_loop()
    due(row)
    loop.tick()
    end(ending)
    due(row)
    loop.tick()
    first, second = runs()
    end("succeeded", second)
    resume(first)
    due(row)
    loop.tick()
    assert outcomes(row) == ["fired", "fired", "skipped: overlap"]


def test_runs_of_other_schedules_and_other_runs_of_the_workflow_do_not_count() -> None:
    row, other = make_schedule(), make_schedule(name="other")
    make_run(workflow=NIGHTLY)
    due(row)
    tick_until_done(fire_loop())
    assert outcomes(row) == ["fired"] == outcomes(other)


def test_few_fires_stay_open_however_many_there_were() -> None:
    row, loop = make_schedule(), fire_loop()
    for ending in ["succeeded"] * 5 + ["failed", "cancelled"]:
        due(row)
        loop.tick()
        end(ending, *Run.objects.filter(finished_at=None))
    due(row)
    loop.tick()
    assert Fire.objects.filter(is_open=True).count() == 3  # the live one, and two that might be resumed
    end("succeeded", *Run.objects.filter(finished_at=None))
    advance(2 * DAY)
    tick_until_done(loop)
    assert Fire.objects.filter(is_open=True).count() == 1


# --- downtime --------------------------------------------------------------------------------


def test_latest_starts_one_run_after_a_week_of_downtime() -> None:
    row = make_schedule()
    move_to(NOON + 7 * DAY + HOUR / 2)
    tick_until_done(fire_loop())
    assert fires(row) == [(NOON, "skipped: missed"), (NOON + 7 * DAY, "fired")]
    assert len(runs()) == 1
    assert fresh(row).next_fire_at == NOON + 7 * DAY + HOUR


def test_none_starts_nothing_after_a_week_of_downtime() -> None:
    row = make_schedule(catch_up="none")
    move_to(NOON + 7 * DAY + HOUR / 2)
    loop = fire_loop()
    tick_until_done(loop)
    assert fires(row) == [(NOON, "skipped: missed")] and runs() == []
    due(row)
    loop.tick()
    assert outcomes(row) == ["skipped: missed", "fired"]


def test_all_starts_each_missed_run_in_bounded_portions() -> None:
    row = make_schedule(catch_up="all", overlap="allow")
    move_to(NOON + 7 * DAY + HOUR / 2)
    loop = fire_loop()
    assert loop.tick() == 1
    assert len(runs()) == 50
    assert loop.interval < 0.1
    assert tick_until_done(loop) == 3
    assert fires(row) == [(NOON + number * HOUR, "fired") for number in range(7 * 24 + 1)]
    assert len(runs()) == 7 * 24 + 1


def test_a_week_of_seconds_is_made_up_for_with_one_run() -> None:
    row = make_schedule("* * * * * *")
    move_to(NOON + 7 * DAY)
    fire_loop().tick()
    assert [outcome for _, outcome in fires(row)][:2] == ["skipped: missed", "fired"]
    assert len(runs()) == 1


# --- what is wrong with one stops only that one ----------------------------------------------


@pytest.mark.behaviour("SCHED-01h")
@pytest.mark.parametrize(
    "wrong",
    [
        {"expression": "no cron"},
        {"expression": "0 0 31 2 *"},
        {"timezone": "Nowhere/AtAll"},
        {"overlap": "perhaps"},
        {"input": '{"unknown": 1}'},
        {"input": "no json"},
        {"input": '{"@": "gone"}'},
    ],
)
def test_an_invalid_row_stops_and_says_why_and_the_others_fire(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    row = make_schedule(name="broken", **{"next_fire_at": NOON, **wrong})
    good = make_schedule()
    loop = fire_loop()
    due(good)
    with caplog.at_level(logging.ERROR):
        loop.tick()
    assert outcomes(good) == ["fired"]
    assert fires(row) == [] and fresh(row).next_fire_at is None and fresh(row).problem
    assert "broken" in caplog.text and "stopped" in caplog.text
    assert loop.tick() == 0


def test_a_workflow_that_can_no_longer_take_its_input_stops_its_schedule() -> None:
    def changed(ctx: object, other: int) -> None:
        pass

    row = make_schedule(input='{"day": "monday"}')
    loop = fire_loop(make_workflow(fn=changed))
    due(row)
    loop.tick()
    assert "day" in fresh(row).problem and runs() == []


def test_an_operators_row_without_a_next_instant_is_planned_and_its_problems_are_seen_at_once() -> None:
    good = make_schedule(next_fire_at=None)
    bad = make_schedule(next_fire_at=None, name="bad", input='{"unknown": 1}')
    fire_loop().tick()
    assert fresh(good).next_fire_at == NOON
    assert "unknown" in fresh(bad).problem
    assert runs() == []


def test_a_row_that_fires_again_has_no_problem_any_more() -> None:
    row, loop = make_schedule(problem="was once", next_fire_at=NOON), fire_loop()
    due(row)
    loop.tick()
    assert fresh(row).problem == "" and outcomes(row) == ["fired"]


def test_an_unknown_workflow_is_named_and_its_schedule_waits_for_the_code() -> None:
    row = make_schedule(workflow="app.gone")
    loop = fire_loop()
    assert "app.gone" in fresh(row).problem
    due(row)
    assert loop.tick() == 0 and fresh(row).next_fire_at == NOON
    assert fire_loop(make_workflow(name="app.gone")).tick() == 1
    assert fresh(row).problem == "" and outcomes(row) == ["fired"]


def test_rows_of_code_that_this_worker_does_not_have_are_not_its_to_fire() -> None:
    elsewhere = make_schedule(app_label="other_app")
    loop = fire_loop()
    due(elsewhere)
    assert loop.tick() == 0 and fires(elsewhere) == []


# --- what the others hear --------------------------------------------------------------------


def heard_into(told: list[dict[str, Any]]) -> Callable[..., None]:
    def receiver(sender: Any, **kwargs: Any) -> None:
        told.append({"sender": sender, **{key: value for key, value in kwargs.items() if key != "signal"}})
        raise DurableError("a receiver that fails changes nothing")

    return receiver


def test_receivers_hear_of_a_fire_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = make_workflow()
    row, fired, enqueued = make_schedule(), list[dict[str, Any]](), list[dict[str, Any]]()
    loop = fire_loop(workflow)
    on_fire, on_enqueue = heard_into(fired), heard_into(enqueued)
    schedule_fired.connect(on_fire, sender=workflow)
    run_enqueued.connect(on_enqueue, sender=workflow)
    pushed: list[Ready] = []
    monkeypatch.setattr(type(current_queue()), "push", lambda self, ready: pushed.extend(ready))
    for _ in range(2):  # the second is skipped: nothing fires
        due(row)
        loop.tick()
    (run,) = runs()
    assert fired == [{"sender": workflow, "schedule": row, "scheduled_for": NOON, "run_id": run.pk}]
    assert enqueued == [{"sender": workflow, "run_id": run.pk}]
    assert pushed == [Ready(run.pk, "default", 0)]


@pytest.mark.parametrize("telling", ["hint", "recovery.wake_parents", "announce_after_commit", "announce"])
def test_what_was_fired_is_not_refused_when_it_cannot_be_told(
    telling: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object) -> None:
        raise DatabaseError("no")

    first, second, loop = make_schedule(), make_schedule(name="second"), fire_loop()
    monkeypatch.setattr(f"django_durable.worker.loops.fire.{telling}", fail)
    due(first)
    assert loop.tick() == 2
    assert outcomes(first) == outcomes(second) == ["fired"]
    assert "could not tell" in caplog.text and "refused" not in caplog.text


# --- cost and delay --------------------------------------------------------------------------


def test_an_hour_without_a_due_schedule_costs_one_statement_in_five_seconds() -> None:
    make_schedule("0 0 1 1 *")
    loop = fire_loop()
    with CaptureQueriesContext(connection) as queries:
        for _ in range(60):
            assert loop.tick() == 0
            assert loop.interval <= 1.0
            advance(SECOND)
    assert 10 <= len(queries) <= 13


def test_a_schedule_with_seconds_fires_within_a_second_of_each() -> None:
    row = make_schedule("* * * * * */2", overlap="allow")
    loop = fire_loop()
    until = NOON + 20 * SECOND
    while scheduling.database_now(Database()) < until:
        loop.tick()
        advance(timedelta(seconds=loop.interval))
    late = [fire.fired_at - fire.scheduled_for for fire in Fire.objects.filter(schedule_id=row.pk)]
    instants = [instant for instant, _ in fires(row)]
    assert len(late) >= 30 and max(late) < SECOND
    assert instants == [instants[0] + 2 * number * SECOND for number in range(len(instants))]


def test_a_new_row_is_seen_within_five_seconds() -> None:
    loop = fire_loop()
    loop.tick()
    row = make_schedule("* * * * * *")
    advance(5 * SECOND)
    loop.tick()
    assert fires(row)


def test_a_clock_that_is_ahead_of_the_databases_fires_nothing_early(monkeypatch: pytest.MonkeyPatch) -> None:
    row, loop = make_schedule(), fire_loop()
    monkeypatch.setattr("django_durable.core.clock.utcnow", lambda: NOON + DAY)
    assert loop.tick() == 0 and fires(row) == []


def test_looking_for_live_runs_uses_the_index_of_open_fires() -> None:
    row = make_schedule()
    Fire.objects.bulk_create(
        Fire(schedule=row, scheduled_for=NOON - number * HOUR, fired_at=NOON, outcome="skipped: overlap")
        for number in range(2000)
    )
    plan = explained(schedules.live(Database().dialect), id=row.pk)
    assert "durable_fire_live" in plan and "Seq Scan on django_durable_fire" not in plan


def explained(statement: str, **parameters: Any) -> str:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        explain = "EXPLAIN" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
        cursor.execute(f"{explain} {statement}", parameters)
        return "\n".join(str(row) for row in cursor.fetchall())


def test_the_synchronised_row_of_this_code_fires() -> None:
    workflow = make_workflow("0 * * * *")
    loop = fire_loop(workflow)
    row = Schedule.objects.get()
    assert row.next_fire_at == next_of(row) == NOON
    due(row)
    assert loop.tick() == 1 and outcomes(row) == ["fired"]
    assert code_of(workflow).tick() == 0 and fresh(row).next_fire_at == NOON + HOUR

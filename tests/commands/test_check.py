"""`durable_check`: what it says of sound tables, how it is asked, and that it only reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import InternalError, OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_durable import Context, durable_workflow
from django_durable.core import registry
from django_durable.models import Audit, Event, IdempotencyKey, JournalEntry, Payload, Run
from django_durable.store.database import Database
from django_durable.store.invariants import INVARIANTS, values
from django_durable.store.invariants.reading import brief_look
from django_durable.testing import run_until_idle
from tests.app import fanning
from tests.app.workflows import doubling, failing, listening, parent, sleepy
from tests.commands.checking import HOUR, a_record, a_run, an_entry, claimed, sound, with_belongings
from tests.commands.conftest import Call
from tests.commands.rows import execute
from tests.processes import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
MINUTE = timedelta(minutes=1)
EVERY = [*(one.id for one in INVARIANTS), "I21", "L1", "L2", "L5", "L6"]


# --- sound tables ------------------------------------------------------------------------------


def test_what_the_engine_makes_violates_nothing(call: Call) -> None:
    for number in range(3):
        doubling.using(idempotency_key=f"k{number}").enqueue(number)
    sleepy.enqueue(3600)
    sleepy.enqueue(0.01)
    listening.enqueue()
    failing.enqueue()
    parent.enqueue(4)
    fanning.whole.enqueue(5)
    doubling.using(run_after=3600).enqueue(1)
    cancelled, late = sleepy.enqueue(3600), sleepy.using(timeout=0.01).enqueue(3600)
    run_until_idle()
    cancelled.cancel()
    deadline = late.refresh().run.deadline_at
    assert deadline is not None
    wait_until(lambda: timezone.now() > deadline)
    run_until_idle()
    assert (cancelled.refresh().status, late.refresh().status) == ("cancelled", "failed")
    doubling.enqueue(5)
    called = call("durable_check", "--payloads", "--batch-size", 2)
    assert called.failed is None, called.out
    verdicts = [line.split()[:2] for line in called.out.splitlines() if not line.startswith(" ")]
    assert verdicts[: len(INVARIANTS) + 1] == [["ok", one.id] for one in INVARIANTS] + [["ok", "I20b"]]


def test_a_fork_of_a_run_and_one_that_is_resumed_violate_nothing(call: Call) -> None:
    origin, failed = parent.enqueue(2), failing.enqueue()
    run_until_idle()
    fork = origin.fork("inside")
    failed.refresh().resume()
    assert call("durable_check").failed is None
    run_until_idle()
    assert (fork.refresh().status, failed.refresh().status) == ("succeeded", "failed")
    called = call("durable_check", "--payloads")
    assert called.failed is None, called.out


def test_an_event_that_is_taken_and_answered_in_the_commit_that_ends_its_run(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_named", dict(registry.definitions()))

    @durable_workflow(name="app.answering")
    def answering(ctx: Context) -> None:
        ctx.wait_for_event("knock").complete("who is there?")

    run = answering.enqueue()
    run.send_event("knock")
    run_until_idle()
    event, ended = Event.objects.get(), run.refresh().run.finished_at
    assert event.consumed_at is not None and event.answered_at is not None and ended is not None
    assert event.consumed_at <= ended
    assert call("durable_check").failed is None


def test_what_is_young_may_not_have_been_swept_yet(call: Call) -> None:
    run = a_waiter("event", wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=run.pk, name="packed", payload="1")
    parent_run = a_waiter("child")
    a_run(status="cancelled", parent=parent_run, parent_path="wait")
    assert call("durable_check").failed is None


def a_waiter(kind: str, **columns: object) -> Run:
    run = a_run(age=HOUR, status="waiting", **{"waiting_on": f"{kind}:wait", **columns})
    an_entry(run, path="wait", kind=kind, status="waiting", value=None, awaits="packed" if kind == "event" else "")
    return run


def test_what_a_run_no_longer_waits_at_is_nothing_to_it(call: Call) -> None:
    """Changed code sleeps where it once waited for an event, and for a child that was over long ago."""
    event, child = an_abandoned("event"), an_abandoned("child")
    for run in (event, child):
        an_entry(run, path="nap", seq=2, kind="sleep", status="waiting", value=None)
        Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() + HOUR)
    Event.objects.create(run_id=event.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    with_belongings(a_run(age=HOUR, parent=child, parent_path="wait"))
    assert call("durable_check").failed is None


def an_abandoned(kind: str) -> Run:
    run = a_waiter(kind, waiting_on="sleep:nap")
    JournalEntry.objects.filter(run_id=run.pk).update(status="abandoned")
    return run


def test_an_event_that_it_no_longer_waits_for_cannot_wake_it(call: Call) -> None:
    run = an_abandoned("event")
    [found] = call("durable_check", "--json").data["invariants"]["I22"]["violations"]
    assert found == {"run": str(run.pk), "problem": "waiting for nothing that could wake it"}


def test_one_of_several_waits_is_enough_to_wake_a_run_and_to_have_woken_it(call: Call) -> None:
    """A join at a map that goes on, at an event, and at a retry."""
    run = a_waiter("map", waiting_on="join:all")
    an_entry(run, path="retry", seq=2, status="retrying")
    an_entry(run, path="event", seq=3, kind="event", status="waiting", awaits="packed")
    with_belongings(a_run(age=HOUR, parent=run, parent_path="wait[0]"))
    a_run(status="queued", parent=run, parent_path="wait[1]")
    assert call("durable_check").failed is None
    Event.objects.create(run_id=run.pk, name="packed", payload="1", sent_at=timezone.now() - HOUR)
    [found] = call("durable_check", "--json").data["invariants"]["I22"]["violations"]
    assert found == {"run": str(run.pk), "problem": "waiting although its event has come"}


@pytest.mark.parametrize("waiting_on", ["retry:", "retry:run"], ids=["now", "0.1.0"])
def test_a_run_that_waits_for_its_next_attempt_needs_no_entry(call: Call, waiting_on: str) -> None:
    a_run(age=HOUR, status="waiting", waiting_on=waiting_on, wake_at=timezone.now() + HOUR)
    assert call("durable_check").failed is None


def test_a_cancelled_run_that_undoes_what_it_did_may_wait_to_try_that_again(call: Call) -> None:
    columns = {"phase": "compensating", "cancel_requested_at": timezone.now() - HOUR, "waiting_on": "retry:double%undo"}
    run = a_run(age=HOUR, status="waiting", wake_at=timezone.now() + HOUR, **columns)
    an_entry(run, path="double%undo", kind="undo", status="retrying", value=None)
    Payload.objects.create(run_id=run.pk, kind="output", data="84")
    assert call("durable_check").failed is None


def test_a_run_that_is_over_may_keep_the_wait_at_which_that_found_it(call: Call) -> None:
    """Resumed it goes on there."""
    run = a_run(age=HOUR, status="cancelled", **claimed(1))
    an_entry(run, kind="event", status="waiting", awaits="packed")
    assert call("durable_check").failed is None


@pytest.mark.parametrize("what", ["detached", "asked", "resumed", "young"])
def test_a_child_that_may_outlive_its_cancelled_parent(call: Call, what: str) -> None:
    finished = timedelta(0) if what == "young" else None
    parent_run = a_run(age=HOUR, status="cancelled", finished=finished, **claimed(1))
    may: dict[str, dict[str, Any]] = {"detached": {"detached": True}, "asked": {"cancel_requested_at": timezone.now()}}
    columns = may.get(what, {})
    child = a_run(status="queued", parent=parent_run, **columns)
    if what == "resumed":
        Audit.objects.create(run_id=child.pk, verb="resume", status_before="cancelled")
    assert call("durable_check").failed is None


def test_expired_keys_bind_nobody(call: Call) -> None:
    names = {"workflow": "app.sleepy", "key": "k", "key_hash": "h", "input_hash": "i"}
    IdempotencyKey.objects.create(**names, run_id=sound().pk, expires_at=timezone.now() - HOUR)
    assert call("durable_check").failed is None


def test_claims_that_were_lost_and_made_anew_with_the_journal_of_each(call: Call) -> None:
    """Taken away from the first, slept under the second, running under the third."""
    run = a_run(age=HOUR, status="running", **claimed(3))
    a_record(run, 1, worker_id=uuid4(), lost_at=run.created_at + MINUTE)
    a_record(run, 2, claimed_at=run.created_at + 2 * MINUTE)
    a_record(run, 3, claimed_at=run.created_at + 4 * MINUTE)
    first, second = uuid4(), uuid4()
    an_entry(run, path="a", token=first, finished_at=run.created_at)
    # It began before the second claim; under the third it was written again and finished.
    an_entry(run, path="nap", seq=2, kind="sleep", wake_at=run.created_at + 3 * MINUTE, finished_at=timezone.now())
    an_entry(run, path="b", seq=3, token=second, started_at=run.created_at + 2 * MINUTE)
    assert call("durable_check").failed is None


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "blocked", "block_reason": "crashed", "crashes": 3, "suspect": True},
        {"status": "queued", "crashes": 3, "suspect": True, "cancel_requested_at": timezone.now()},
        {"status": "blocked", "block_reason": "crashed", "crashes": 4, "cancel_requested_at": timezone.now()},
        {"status": "cancelled", "crashes": 3, "suspect": True},
        {"status": "queued", "crashes": 2},
    ],
)
def test_as_often_as_a_run_may_crash_it_may(call: Call, columns: dict[str, object]) -> None:
    a_run(**{**claimed(9), **columns})
    assert call("durable_check").failed is None


def test_what_is_undecodable_may_be_so_in_a_blocked_run(call: Call) -> None:
    run = a_run(status="blocked", block_reason="undecodable", **claimed(1))
    Payload.objects.create(run_id=run.pk, kind="input", data="{")
    assert call("durable_check", "--payloads").failed is None


# --- how it is asked ---------------------------------------------------------------------------


def test_it_says_what_it_has_looked_at(call: Call) -> None:
    for _ in range(5):
        sound()
    data = call("durable_check", "--json", "--payloads", "--batch-size", 2).data
    assert (data["ok"], data["known"]) == (True, True)
    found = data["invariants"]
    assert {*found} == {*EVERY, "I20b"}
    assert (found["I1"]["rows"], found["I4"]["rows"], found["I13"]["rows"]) == (5, 10, 0)
    # An input, an output, a step's result and an event's payload of each.
    assert found["I20b"]["rows"] == 20
    assert all(one["seconds"] >= 0 for one in found.values())
    assert found["L1"]["not_looked_at"] == "no worker is alive"
    assert (found["L1"]["holds"], found["I1"]["holds"]) == (None, True)


def test_values_are_measured_page_by_page_and_loaded_in_portions(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "PAGE", 2)
    monkeypatch.setattr(values, "PORTION_BYTES", 14)
    runs = [sound() for _ in range(3)]
    for run in runs[:2]:
        Payload.objects.filter(run_id=run.pk, kind="output").update(data="{")
    found = call("durable_check", "--only", "I20b", "--json").data["invariants"]["I20b"]
    assert found["rows"] == 12
    assert [one["run"] for one in found["violations"]] == [str(run.pk) for run in runs[:2]]
    limited = call("durable_check", "--only", "I20b", "--json", "--limit", 1).data["invariants"]["I20b"]
    assert [one["run"] for one in limited["violations"]] == [str(runs[0].pk)]


def test_without_being_asked_it_reads_no_values(call: Call) -> None:
    Payload.objects.filter(run_id=sound().pk).update(data="{")
    called = call("durable_check", "--json")
    assert called.failed is None
    assert "I20b" not in called.data["invariants"]


def test_only_what_it_is_asked_for(call: Call) -> None:
    a_run(status="succeeded")
    called = call("durable_check", "--only", "I1,I22")
    assert called.failed is None
    assert [line.split()[1] for line in called.out.splitlines()] == ["I1", "I22"]
    assert list(call("durable_check", "--only", "I20b", "--json").data["invariants"]) == ["I20b"]
    with pytest.raises(CommandError, match="there is no invariant 'I99'; there are I1, I2, "):
        call_command("durable_check", "--only", "I1,I99")


def test_it_shows_as_many_as_it_is_asked_to(call: Call) -> None:
    for _ in range(5):
        a_run(status="succeeded")
    data = call("durable_check", "--json", "--limit", 3, "--batch-size", 2).data
    assert len(data["invariants"]["I2"]["violations"]) == 3


# --- it only reads -----------------------------------------------------------------------------


def test_it_only_reads() -> None:
    sound()
    with CaptureQueriesContext(connection) as queries:
        call_command("durable_check", "--payloads", verbosity=0)
    beginnings = {query["sql"].split()[0] for query in queries}
    assert beginnings <= {"SELECT", "WITH", "SET", "PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}


def test_in_a_look_nothing_can_be_written() -> None:
    db = Database()
    run = sound()
    with pytest.raises((InternalError, OperationalError), match=r"read-?only"), brief_look(db, 10.0):
        execute("UPDATE django_durable_run SET priority = 1")
    Run.objects.filter(pk=run.pk).update(priority=2)
    assert Run.objects.get().priority == 2

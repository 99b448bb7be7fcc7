"""durable_cancel, durable_pause, durable_resume, durable_rerun, durable_fork, durable_event."""

from __future__ import annotations

import os
import pwd
from typing import Any
from uuid import uuid4

import pytest

from django_durable import get_run
from django_durable.models import Audit, Event, Payload
from django_durable.store import transitions
from django_durable.store.auditing import Verb
from django_durable.store.database import Database
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling, failing, listening, sleepy
from tests.commands.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
ME = f"shell:{pwd.getpwuid(os.getuid()).pw_name}"


def test_cancel(call: Call) -> None:
    fresh, waiting, over = doubling.enqueue(1), sleepy.enqueue(60), doubling.using(priority=9).enqueue(2)
    transitions.cancel(Database(), [fresh.id], Verb())
    run_until_idle()
    fresh = doubling.enqueue(3)
    called = call("durable_cancel", fresh.id, waiting.id, over.id, "--reason", "not needed")
    assert called.out.splitlines() == [
        f"{fresh.id} cancelled",
        f"{waiting.id} is asked to stop",
        f"{over.id} is over already: succeeded",
    ]
    entry = Audit.objects.get(run_id=waiting.id)
    assert (entry.verb, entry.actor, entry.reason, entry.status_before) == ("cancel", ME, "not needed", "waiting")
    run_until_idle()
    assert waiting.refresh().status == "cancelled"


@pytest.mark.parametrize("command", ["durable_cancel", "durable_pause", "durable_resume", "durable_rerun"])
def test_an_unknown_id_stops_before_anything_is_done(call: Call, command: str) -> None:
    known, unknown = doubling.enqueue(1), uuid4()
    called = call(command, known.id, unknown)
    assert called.failed == f"There is no run {unknown}."
    assert known.refresh().status == "queued"


def test_one_that_refuses_does_not_stop_the_others(call: Call) -> None:
    gone, kept = doubling.enqueue(1), doubling.enqueue(2)
    Payload.objects.filter(run_id=gone.id).delete()
    called = call("durable_rerun", gone.id, kept.id)
    assert str(gone.id) in called.err and len(called.out.split()) == 1
    assert called.failed == "1 run could not be run again."


def test_what_is_no_id(call: Call) -> None:
    called = call("durable_cancel", "42")
    assert called.failed is not None
    assert "'42' is no run id" in called.failed


def test_resume(call: Call) -> None:
    run, live = failing.enqueue(), sleepy.enqueue(60)
    run_until_idle()
    called = call("durable_resume", live.id, run.id, "--reason", "mended")
    assert called.out == f"{run.id} resumed\n"
    assert called.err == f"Run {live.id} is waiting: it cannot be resumed.\n"
    assert called.failed == "1 run could not be resumed."
    assert run.refresh().status == "queued"
    entry = Audit.objects.get(run_id=run.id)
    assert (entry.verb, entry.actor, entry.reason) == ("resume", ME, "mended")


def test_pause(call: Call) -> None:
    over, waiting = doubling.enqueue(1), sleepy.enqueue(60)
    run_until_idle()
    called = call("durable_pause", over.id, waiting.id, "--reason", "closed")
    assert called.out == f"{waiting.id} paused\n"
    assert called.err == f"Run {over.id} is succeeded: it cannot be paused.\n"
    assert called.failed == "1 run could not be paused."
    entry = Audit.objects.get(run_id=waiting.id)
    assert (entry.verb, entry.actor, entry.reason) == ("pause", ME, "closed")
    assert call("durable_resume", waiting.id).out == f"{waiting.id} resumed\n"


def test_rerun(call: Call) -> None:
    runs = [doubling.enqueue(1), doubling.enqueue(2)]
    called = call("durable_rerun", *(run.id for run in runs), "--reason", "again")
    assert [get_run(run_id).status for run_id in called.out.split()] == ["queued", "queued"]
    told = Audit.objects.filter(run_id__in=[run.id for run in runs]).order_by("run_id")
    assert list(told.values_list("verb", "actor", "reason")) == [
        ("rerun", ME, f"{new}: again") for new in called.out.split()
    ]


def test_fork(call: Call) -> None:
    run = doubling.enqueue(1)
    run_until_idle()
    [step] = run.steps()
    new = get_run(call("durable_fork", run.id, step.path, "--reason", "wrong").out.strip())
    assert new.run.forked_from == run.id
    assert f"{new.id} from {step.path!r}: wrong" == Audit.objects.get(run_id=run.id).reason
    assert "it never came there" in str(call("durable_fork", run.id, "nowhere").failed)


def test_event(call: Call) -> None:
    run = listening.enqueue()
    run_until_idle()
    assert call("durable_event", run.id, "packed", "--payload", '{"box": 3}').failed is None
    run_until_idle(skip_waits=True)
    assert run.result() == [{"box": 3}, None]
    entry = Audit.objects.get(run_id=run.id)
    assert (entry.verb, entry.actor, entry.reason) == ("send_event", ME, "packed")


def test_the_reason_for_an_event_is_audited(call: Call) -> None:
    run = listening.enqueue()
    assert call("durable_event", run.id, "packed", "--reason", "told by telephone").failed is None
    assert Audit.objects.get(run_id=run.id).reason == "packed: told by telephone"


def test_an_event_with_a_key_is_sent_once(call: Call) -> None:
    run = listening.enqueue()
    for _ in range(2):
        assert call("durable_event", run.id, "packed", "--key", "parcel-1").failed is None
    assert Event.objects.filter(run_id=run.id).count() == 1


def test_one_event_too_many(call: Call, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "MAX_OPEN_EVENTS": 1}
    run = listening.enqueue()
    assert call("durable_event", run.id, "packed").failed is None
    assert "MAX_OPEN_EVENTS is 1" in str(call("durable_event", run.id, "packed").failed)
    assert Event.objects.count() == 1


def test_an_event_for_nobody(call: Call) -> None:
    over, unknown = doubling.enqueue(1), uuid4()
    run_until_idle()
    assert call("durable_event", unknown, "packed").failed == f"There is no run {unknown}."
    assert "is succeeded" in str(call("durable_event", over.id, "packed").failed)
    assert "--payload is no JSON" in str(call("durable_event", over.id, "packed", "--payload", "shipped").failed)
    assert "event" in str(call("durable_event", over.id, " ").failed)
    assert get_run(over.id).status == "succeeded"

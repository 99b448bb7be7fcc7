from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from django_durable.client.listing import EXCERPT, LIMIT_MOST, find_runs
from django_durable.models import Audit, JournalEntry, Payload, Run
from django_durable.testing import run_until_idle
from tests.app.workflows import doubling, failing, listening, sleepy
from tests.commands.conftest import Call
from tests.commands.rows import a_run, an_entry

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


def test_nothing_to_list(call: Call) -> None:
    assert call("durable_runs").out == "No run fits.\n"
    assert call("durable_runs", "--json").data == []


def test_the_newest_first(call: Call) -> None:
    runs = [doubling.enqueue(number) for number in range(3)]
    listed = call("durable_runs", "--json", "--limit", 2).data
    assert [row["id"] for row in listed] == [str(run.id) for run in reversed(runs)][:2]
    head, first, *_ = call("durable_runs").out.splitlines()
    assert head.split()[:3] == ["id", "workflow", "status"]
    assert first.split()[:3] == [str(runs[-1].id), "app.doubling", "queued"]


@pytest.mark.behaviour("RUN-08a")
def test_conditions_combine(call: Call) -> None:
    wanted = doubling.using(queue="vip", tags=["a", "b"]).enqueue(1)
    doubling.using(queue="vip", tags=["a"]).enqueue(1)
    doubling.using(tags=["a", "b"]).enqueue(1)
    sleepy.using(queue="vip", tags=["a", "b"]).enqueue(1)
    doubling.using(queue="vip", tags=["a", "b"], run_after=60).enqueue(1)
    conditions = ["--workflow", "app.doubling", "--queue", "vip", "--tag", "a", "--tag", "b"]
    listed = call("durable_runs", *conditions, "--status", "queued", "--json").data
    assert [row["id"] for row in listed] == [str(wanted.id)]
    both = call("durable_runs", *conditions, "--status", "queued", "--status", "scheduled", "--json").data
    assert len(both) == 2


@pytest.mark.behaviour("RUN-08b")
@pytest.mark.parametrize("limit", [-5, 0, 1])
def test_run_08_odd_limits_are_clamped(limit: int) -> None:
    for _ in range(2):
        a_run()
    assert len(find_runs(limit=limit)) == 1
    assert len(find_runs(limit=LIMIT_MOST * 10)) == 2


def test_one_run(call: Call) -> None:
    run = doubling.using(tags=["blue"]).enqueue(21)
    run_until_idle()
    data = call("durable_runs", run.id, "--json").data
    assert (data["id"], data["status"], data["tags"]) == (str(run.id), "succeeded", ["blue"])
    assert data["why"]["reason"] == "finished"
    assert data["payloads"] == {
        "input": {"text": '{"number":21}', "bytes": 13},
        "output": {"text": "42", "bytes": 2},
    }
    [entry] = data["journal"]
    assert (entry["path"], entry["kind"], entry["value"]) == ("double", "step", {"text": "42", "bytes": 2})
    text = call("durable_runs", run.id).out
    for part in (str(run.id), "It is over: succeeded", '{"number":21}', "double", "blue"):
        assert part in text


def test_a_failed_and_a_waiting_run(call: Call) -> None:
    failed, waiting = failing.enqueue(), listening.enqueue()
    run_until_idle()
    data = call("durable_runs", failed.id, "--json").data
    # Type and message come first: they are seen also where a long traceback is cut.
    assert data["payloads"]["error"]["text"].startswith('{"type":"django_durable.exceptions.StepFailed","message":')
    assert "boom" in data["journal"][0]["error"]["text"]
    assert "It waits for the event 'packed', and gives up at " in call("durable_runs", waiting.id).out


@pytest.mark.parametrize(("status", "is_told"), [("waiting", True), ("succeeded", False), ("cancelled", False)])
def test_an_attempt_that_failed_is_told_while_the_run_is_live(call: Call, status: str, is_told: bool) -> None:
    run = a_run(status=status)
    Payload.objects.create(run_id=run.pk, kind="retry", data='{"type":"OSError","message":"no network"}')
    assert ("retry" in call("durable_runs", run.pk, "--json").data["payloads"]) == is_told
    assert ("no network" in call("durable_runs", run.pk).out) == is_told


def test_large_values_are_cut(call: Call) -> None:
    run = a_run()
    Payload.objects.create(run_id=run.pk, kind="output", data=json.dumps("x" * 100_000))
    an_entry(run, value=json.dumps("y" * 100_000))
    data = call("durable_runs", run.pk, "--json").data
    assert len(data["payloads"]["output"]["text"]) == len(data["journal"][0]["value"]["text"]) == EXCERPT
    assert data["payloads"]["output"]["bytes"] == data["journal"][0]["value"]["bytes"] == 100_002
    text = call("durable_runs", run.pk).out
    assert "… (100,002 bytes)" in text
    assert len(text) < 3 * EXCERPT + 2_000


def test_damaged_values_hide_nothing(call: Call) -> None:
    run = a_run(status="blocked")
    Payload.objects.create(run_id=run.pk, kind="input", data='{"$":"gone","v":1}')
    an_entry(run, value="{broken")
    text = call("durable_runs", run.pk).out
    assert "{broken" in text
    assert '{"$":"gone","v":1}' in text


def test_nothing_steers_the_terminal(call: Call) -> None:
    run = a_run()
    Audit.objects.create(run_id=run.pk, verb="cancel", reason="\x1b[2Jgone\r\n", status_before="queued")
    an_entry(run, value="\x1b[31m")
    assert not {"\x1b", "\r"} & set(call("durable_runs", run.pk).out)


def test_a_long_journal_is_cut(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.client.listing.ENTRIES_MOST", 2)
    run = a_run()
    for seq in range(1, 6):
        an_entry(run, path=f"double[{seq}]", seq=seq)
    data = call("durable_runs", run.pk, "--json").data
    assert ([entry["seq"] for entry in data["journal"]], data["journal_entries"]) == ([1, 2], 5)
    assert "… and 3 more entries" in call("durable_runs", run.pk).out


def test_no_such_run(call: Call) -> None:
    unknown = uuid4()
    assert call("durable_runs", unknown).failed == f"There is no run {unknown}."


def test_reading_changes_nothing(call: Call) -> None:
    doubling.enqueue(1)
    run = a_run(age=timedelta(days=1))
    before = (list(Run.objects.order_by("pk").values()), JournalEntry.objects.count())
    call("durable_runs")
    call("durable_runs", run.pk)
    assert (list(Run.objects.order_by("pk").values()), JournalEntry.objects.count()) == before

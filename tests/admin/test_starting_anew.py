"""Runs that are started again from the admin: from the beginning, or from a step on; and those that are put aside."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_durable.core.journal.states import Status
from django_durable.models import Audit, Run
from django_durable.testing import run_until_idle
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import list_url, run_url, text_of, verb_url
from tests.admin.test_verbs import answer, ask, confirm
from tests.admin.world import make_run
from tests.app.workflows import doubling, sleepy


def test_a_run_is_paused_and_goes_on(boss: Client) -> None:
    handle = sleepy.enqueue(seconds=3600)
    run_until_idle()
    assert "1 run was asked to pause." in confirm(boss, handle.run, "pause", reason="closed")
    assert handle.refresh().status == Status.PAUSED
    assert "1 run goes on." in confirm(boss, handle.run, "resume", reason="open")
    assert handle.refresh().status == Status.QUEUED
    assert [(one.verb, one.actor, one.reason) for one in Audit.objects.order_by("pk")] == [
        ("pause", "ann", "closed"),
        ("resume", "ann", "open"),
    ]
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == ["Pause: closed", "Resume: open"]


def test_a_running_run_says_that_it_is_about_to_pause_and_may_be_let_go_on(boss: Client) -> None:
    run = make_run("running")
    text = confirm(boss, run, "pause")
    assert "1 run was asked to pause." in text and "pausing" in text and "Asked to pause" in text
    assert verb_url(run, "pause") not in boss.get(run_url(run)).content.decode()
    assert "1 run goes on." in confirm(boss, run, "resume")
    assert Run.objects.get().pause_requested_at is None


def test_many_are_paused_at_once(boss: Client) -> None:
    runs = [make_run(status) for status in ("queued", "waiting", "scheduled", "running", "blocked", "failed")]
    asked = ask(boss, "pause_selected", runs)
    assert "Pause these 4 runs?" in text_of(asked)
    assert "4 runs were asked to pause." in text_of(answer(boss, asked, "all"))
    assert (Run.objects.filter(status="paused").count(), LogEntry.objects.count()) == (3, 4)


def test_runs_are_started_again(boss: Client) -> None:
    done, without_input = doubling.enqueue(4), make_run("failed")
    run_until_idle()
    asked = ask(boss, "rerun_selected", [done.run, without_input])
    assert "Run this again?" in text_of(asked)
    assert "1 run was started anew." in text_of(answer(boss, asked, "once more"))
    run_until_idle()
    again = Run.objects.exclude(pk__in=[done.id, without_input.pk]).get()
    assert (again.workflow, again.status) == (done.workflow, "succeeded")
    assert Audit.objects.get(run_id=done.id).reason == f"{again.pk}: once more"
    assert LogEntry.objects.get().change_message == "Run again: once more"


def test_a_run_is_forked_from_a_step(boss: Client) -> None:
    done = doubling.enqueue(4)
    run_until_idle()
    [step] = done.steps()
    asked = boss.post(verb_url(done.run, "fork"))
    assert "Fork this run" in text_of(asked)
    refused = boss.post(verb_url(done.run, "fork"), {"confirmed": "1", "from_step": step.path + "x", "reason": ""})
    assert f"Did you mean '{step.path}'?" in text_of(refused).replace("&#x27;", "'")
    forked = boss.post(
        verb_url(done.run, "fork"), {"confirmed": "1", "from_step": step.path, "reason": "wrong"}, follow=True
    )
    new = Run.objects.get(forked_from=done.id)
    assert forked.redirect_chain == [(run_url(new), 302)]
    assert f"Forked from {done.id}" in text_of(forked)
    assert Audit.objects.filter(verb="fork", actor="ann", reason__endswith=": wrong").count() == 2
    assert LogEntry.objects.get().object_id == str(done.id)


def test_only_what_was_begun_has_a_button_to_fork_it(boss: Client) -> None:
    for run, is_offered in (
        (make_run("queued"), False),
        (make_run("cancelled", claims=0), False),
        (make_run("failed"), True),
    ):
        page = boss.get(run_url(run)).content.decode()
        assert (f'formaction="{verb_url(run, "fork")}"' in page) is is_offered, run.status
        assert f'formaction="{verb_url(run, "rerun")}"' in page


@pytest.mark.parametrize(("permission", "answered", "runs"), [("resume_run", 403, 1), ("rerun_run", 302, 2)])
@pytest.mark.parametrize("verb", ["rerun", "fork"])
def test_starting_anew_needs_its_permission(
    person: Person, verb: str, permission: str, answered: int, runs: int
) -> None:
    done = doubling.enqueue(4)
    run_until_idle()
    data = {"confirmed": "1", "from_step": done.steps()[0].path}
    assert person(*LOOK, permission).post(verb_url(done.run, verb), data).status_code == answered
    assert Run.objects.count() == runs


def test_the_page_of_a_run_without_input_says_so(boss: Client) -> None:
    run = make_run("failed")
    asked = boss.post(verb_url(run, "fork"), {"confirmed": "1", "from_step": "a"})
    assert "Its input is gone" in text_of(asked)
    again = boss.post(verb_url(run, "rerun"), follow=True)
    assert "Nothing was started: the input is kept no longer." in text_of(again)
    assert boss.get(list_url()).status_code == 200


def test_a_fork_that_is_answered_twice_is_made_once(boss: Client, person: Person) -> None:
    done = doubling.enqueue(4)
    run_until_idle()
    step = done.steps()[0].path
    form = boss.post(verb_url(done.run, "fork"), {"from_step": step}).context["form"]
    data = {"confirmed": "1", "from_step": step, "reason": "mended", "asked_after": form["asked_after"].value()}
    first, second = (boss.post(verb_url(done.run, "fork"), data) for _ in range(2))
    assert first.url == second.url and Run.objects.count() == 2
    assert LogEntry.objects.count() == 1
    # Another person's answer, and one to a later question, make their own.
    person(*LOOK, "rerun_run", name="bob").post(verb_url(done.run, "fork"), data)
    later = boss.post(verb_url(done.run, "fork"), {"from_step": step}).context["form"]["asked_after"].value()
    boss.post(verb_url(done.run, "fork"), {**data, "asked_after": later})
    boss.post(verb_url(done.run, "fork"), {**data, "asked_after": "x"})
    assert Run.objects.count() == 4


def test_the_button_that_is_answered_twice_starts_it_once(boss: Client) -> None:
    done = doubling.enqueue(4)
    run_until_idle()
    asked = boss.post(verb_url(done.run, "rerun"))
    data = {**dict(asked.context["hidden"]), "confirmed": "1"}
    for _ in range(2):
        assert "1 run was started anew." in text_of(boss.post(verb_url(done.run, "rerun"), data, follow=True))
    assert Run.objects.count() == 2

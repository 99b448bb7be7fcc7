"""What the buttons and actions do to runs, and what is kept of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable import get_run
from django_durable.admin.verbs import RunVerb
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import TERMINAL, Status
from django_durable.exceptions import RunLocked, RunNotFound, TooManyEvents
from django_durable.models import Audit, Event, JournalEntry, Run
from django_durable.testing import run_until_idle
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import list_url, run_url, text_of, verb_url
from tests.admin.world import make_entry, make_run
from tests.app.workflows import doubling, failing, listening, parent, sleepy
from tests.store.parallel import Threads
from tests.store.parallel import answer as answer_of

ENDS_AS_IT_IS = "A blocked run that was asked to stop before ends as it is: effects that it has not undone stay."


def confirm(client: Client, run: Any, verb: str, **data: str) -> str:
    """Does as the buttons do: asks, answers the question, and comes back to the run's page."""
    asked = client.post(verb_url(run, verb))
    assert asked.status_code == 200
    hidden = {name: str(asked.context["form"][name].value()) for name in ("key",) if verb == "event"}
    done = client.post(verb_url(run, verb), {"confirmed": "1", **hidden, **data}, follow=True)
    assert done.redirect_chain == [(run_url(run), 302)]
    return text_of(done)


def test_cancel_ends_a_waiting_run_and_is_kept(boss: Client) -> None:
    handle = sleepy.enqueue(seconds=3600)
    run_until_idle()
    text = confirm(boss, handle.run, "cancel", reason="ordered twice")
    assert "1 run was asked to stop." in text
    run_until_idle()
    assert handle.refresh().status == Status.CANCELLED
    audit, entry = Audit.objects.get(), LogEntry.objects.get()
    assert (audit.verb, audit.actor, audit.reason, audit.status_before) == ("cancel", "ann", "ordered twice", "waiting")
    assert (entry.user, entry.object_id, entry.change_message) == (
        User.objects.get(),
        str(handle.id),
        "Cancel: ordered twice",
    )
    for url in (run_url(handle.run), reverse("admin:django_durable_run_history", args=[handle.id])):
        assert "ordered twice" in text_of(boss.get(url))


def test_a_blocked_run_that_was_asked_to_stop_can_be_ended_as_it_is(boss: Client) -> None:
    run = make_run("blocked", cancel_requested_at=timezone.now())
    make_entry(run, "reserve", undo=True)
    page = boss.get(run_url(run))
    assert "It was asked to stop, and has to undo what it did" in text_of(page)
    assert f'formaction="{verb_url(run, "cancel")}"' in page.content.decode(), "there is no button for it"
    assert ENDS_AS_IT_IS in text_of(boss.post(verb_url(run, "cancel")))
    text = confirm(boss, run, "cancel", reason="nobody will mend it")
    assert Run.objects.get().status == Status.CANCELLED
    assert "'reserve' was not undone" in text


@pytest.mark.parametrize("status", ["blocked", "waiting"])
def test_of_others_nothing_is_said_to_stay(boss: Client, status: str) -> None:
    run = make_run(status)
    assert ENDS_AS_IT_IS not in text_of(boss.post(verb_url(run, "cancel")))


def test_on_the_list_it_is_said_where_one_of_them_ends_as_it_is(boss: Client) -> None:
    runs = [make_run("waiting"), make_run("blocked", cancel_requested_at=timezone.now())]
    assert ENDS_AS_IT_IS in text_of(ask(boss, "cancel_selected", runs))
    assert ENDS_AS_IT_IS not in text_of(ask(boss, "pause_selected", [make_run("waiting")]))
    everything = {"action": "cancel_selected", "select_across": "1", "_selected_action": "all"}
    assert ENDS_AS_IT_IS in text_of(boss.post(list_url(), everything)), "nobody knows whether there is one"


def test_resume_brings_a_failed_run_to_its_end(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = failing.enqueue()
    run_until_idle()
    assert handle.refresh().status == Status.FAILED
    monkeypatch.setattr("tests.app.workflows.explode", lambda _message: None)
    assert "1 run goes on." in confirm(boss, handle.run, "resume", reason="mended")
    run_until_idle()
    assert handle.refresh().status == Status.SUCCEEDED
    assert Audit.objects.get().reason == "mended"
    assert LogEntry.objects.get().change_message == "Resume: mended"


def test_an_event_reaches_the_run_that_waits_for_it(boss: Client) -> None:
    handle = listening.enqueue()
    run_until_idle()
    asked = boss.post(verb_url(handle.run, "event"))
    assert asked.context["form"]["name"].value() == "packed"  # what it waits for is filled in
    text = confirm(boss, handle.run, "event", name="packed", payload='{"tracking": [1, "é"]}', reason="by phone")
    assert "The event was sent." in text
    run_until_idle()
    assert JournalEntry.objects.get(run_id=handle.id, path="packed").status == "succeeded"
    audit = Audit.objects.get()
    assert (audit.verb, audit.actor, audit.reason) == ("send_event", "ann", "packed: by phone")
    assert LogEntry.objects.get().change_message == "Send event packed: by phone"


def test_the_form_of_an_event_names_all_that_the_run_waits_for(boss: Client) -> None:
    run = make_run("waiting")
    waits = {"kind": "event", "status": "waiting", "finished_at": None}
    make_entry(run, "verdict", 1, awaits="approved\nrejected", **waits)
    make_entry(run, "both/left", 2, awaits="packed <b>", **waits)
    make_entry(run, "both/right", 3, awaits="approved", **waits)
    make_entry(run, "earlier", 4, awaits="ordered", kind="event")
    asked = boss.post(verb_url(run, "event"))
    assert asked.context["form"]["name"].value() == "approved"
    assert "It waits for: approved, rejected, packed <b>." in text_of(asked)
    make_entry(run, "many", 5, awaits="\n".join(f"no {number}" for number in range(18)), **waits)
    asked = text_of(boss.post(verb_url(run, "event")))
    assert "no 16, …." in asked and "no 17" not in asked


def test_a_form_that_is_sent_twice_sends_one_event(boss: Client) -> None:
    run = make_run("waiting")
    data = {"confirmed": "1", "name": "packed", "payload": "", "key": str(run.pk)}
    for _ in range(2):
        boss.post(verb_url(run, "event"), data)
    assert Event.objects.get().payload == "null"


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (RunLocked([], 2.0), "is held by another transaction"),
        (RunNotFound("0"), "The run is gone: it takes no events."),
        (TooManyEvents(uuid7(), 3, 9, "MAX_OPEN_EVENTS", 3), "send it again when the run has taken some."),
    ],
    ids=["held", "gone", "full"],
)
def test_an_event_that_is_not_taken_now_says_why(
    boss: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str
) -> None:
    def refuse(*args: Any, **more: Any) -> int:
        raise error

    run = make_run("waiting")
    monkeypatch.setattr("django_durable.client.verbs.send_event", refuse)
    data = {"confirmed": "1", "name": "packed", "payload": "7", "key": str(run.pk)}
    response = boss.post(verb_url(run, "event"), data)
    assert response.status_code == 200
    assert complaint in text_of(response)
    # What was written is kept, and so is the key: sent again it is the same event.
    assert [response.context["form"][name].value() for name in ("payload", "key")] == ["7", str(run.pk)]
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize(
    ("name", "payload", "complaint"),
    [
        ("", "", "This field is required."),
        ("packed", "{", "This is not JSON"),
        ("packed", "NaN", "This is not JSON: NaN"),
        ("packed", "[" * 100_000, "This is not JSON"),
        ("packed", "[" * 300 + "]" * 300, "nested more than 200 levels"),
        ("packed", "1" * 5_000, "This is not JSON"),
        ("packed", "x" * 300, "This is not JSON"),
        ("pa\x1bcked", "", "control characters"),
        ("x" * 201, "", "at most 200 characters"),
    ],
    ids=range(9),
)
def test_a_bad_event_is_explained(boss: Client, name: str, payload: str, complaint: str) -> None:
    run = make_run("waiting")
    data = {"confirmed": "1", "name": name, "payload": payload, "key": str(run.pk)}
    response = boss.post(verb_url(run, "event"), data)
    assert response.status_code == 200
    assert complaint in text_of(response)
    assert not Event.objects.exists() and not Audit.objects.exists() and not LogEntry.objects.exists()


@pytest.mark.parametrize("status", sorted(Status))
@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "event"])
def test_a_verb_that_does_not_fit_does_nothing(boss: Client, verb: str, status: str) -> None:
    run = make_run(status)
    fits = (
        status
        in {
            "cancel": frozenset(Status) - TERMINAL,
            "event": frozenset(Status) - TERMINAL,
            "pause": {"scheduled", "queued", "running", "waiting"},
            "resume": {"paused", "blocked", "failed", "cancelled"},
        }[verb]
    )
    assert (verb_url(run, verb) in boss.get(run_url(run)).content.decode()) == fits
    assert boss.post(verb_url(run, verb)).status_code == (200 if fits else 302)
    boss.post(verb_url(run, verb), {"confirmed": "1", "name": "packed", "key": str(run.pk)})
    assert Audit.objects.count() == LogEntry.objects.count() == int(fits)
    if not fits:
        assert Run.objects.get().status == status


def test_a_child_whose_parent_saw_it_fail_stays(boss: Client) -> None:
    handle = parent.enqueue(number=1)
    child = make_run("failed", parent_id=handle.id, parent_path="inside")
    JournalEntry.objects.create(
        run_id=handle.id, path="inside", seq=1, kind="child", status="failed", started_at=child.started_at,
        token=child.pk,
    )  # fmt: skip
    for sent in ({}, {"confirmed": "1"}):
        answer = boss.post(verb_url(child, "resume"), sent, follow=True)
        assert answer.redirect_chain == [(run_url(child), 302)]
        assert "Nothing goes on: it does so already, or its parent knows how it ended." in text_of(answer)
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_child_in_whose_place_there_is_another_needs_nobody(boss: Client, status: str) -> None:
    """Its parent was resumed: it stays as it ended for ever, and so would a number that counts it."""
    there = make_run("running")
    child = make_run(status, parent_id=there.pk, parent_path="")
    other = make_run(status, parent_id=there.pk, parent_path="inside")
    text = text_of(boss.get(run_url(child)))
    assert "Its parent was resumed, and has another in its place." in text and "Resume" not in text
    assert "stays so until somebody resumes it" in text_of(boss.get(run_url(other)))
    asked = ask(boss, "resume_selected", [child, other])
    assert "Resume this run?" in text_of(asked) and "1 of the selected runs stays as it is" in text_of(asked)
    listed = boss.get(list_url("?trouble=today")).context["cl"].result_list
    assert list(listed) == ([other] if status == "failed" else [])
    overview = text_of(boss.get(reverse("admin:django_durable_overview")))
    assert ("1 run has failed today" in overview) is (status == "failed")


def test_a_run_that_is_gone_is_not_found(boss: Client) -> None:
    run = make_run()
    Run.objects.all().delete()
    assert boss.post(verb_url(run, "cancel")).status_code == 404


# --- actions on a selection ------------------------------------------------------------------


def ask(client: Client, action: str, runs: list[Run], **more: str) -> Any:
    data = {"action": action, "index": "0", ACTION_CHECKBOX_NAME: [str(run.pk) for run in runs], **more}
    return client.post(list_url(), data)


def answer(client: Client, asked: Any, reason: str) -> Any:
    """Sends the form of the confirmation page."""
    question = asked.context["question"]
    data = {**question.hidden, "confirmed": "1", "ids": question.form["ids"].value(), "reason": reason}
    return client.post(list_url(), data, follow=True)


def test_the_page_says_how_many_and_which(boss: Client) -> None:
    runs = [make_run(status) for status in ("queued", "waiting", "waiting", "succeeded", "failed")]
    asked = ask(boss, "cancel_selected", runs)
    text = text_of(asked)
    assert "Cancel these 3 runs?" in text
    assert "2 of the selected runs stay as they are" in text
    assert "queued 1 waiting 2" in text
    for run in runs:
        assert (str(run.pk) in text) == (run.status in ("queued", "waiting"))
    assert not Audit.objects.exists()
    assert "3 runs were asked to stop." in text_of(answer(boss, asked, "all wrong"))
    assert {audit.run_id for audit in Audit.objects.all()} == {run.pk for run in runs[:3]}
    assert LogEntry.objects.count() == 3
    assert {entry.change_message for entry in LogEntry.objects.all()} == {"Cancel: all wrong"}


def test_of_many_it_names_the_newest_and_says_how_many_more_there_are(boss: Client) -> None:
    runs = [make_run("queued") for _ in range(25)]
    text = text_of(ask(boss, "cancel_selected", runs))
    assert "Cancel these 25 runs?" in text and "… and 5 more" in text and "queued 25" in text
    assert [str(run.pk) in text for run in runs] == [False] * 5 + [True] * 20
    assert "… and" not in text_of(ask(boss, "cancel_selected", runs[5:]))


@pytest.mark.parametrize(
    ("verb", "status", "look"),
    [
        ("cancel", "queued", "durable-danger"),
        ("pause", "queued", "default"),
        ("resume", "failed", "default"),
        ("rerun", "succeeded", "default"),
        ("export", "succeeded", "default"),
    ],
)
def test_only_what_stops_runs_has_a_red_button(boss: Client, verb: str, status: str, look: str) -> None:
    run = make_run(status)
    run.payloads.create(kind="input", data="[]")
    pages = [ask(boss, f"{verb}_selected", [run]), ask(boss, f"{verb}_selected", [run], select_across="1")]
    if verb != "export":
        pages.append(boss.post(verb_url(run, verb)))
    for page in pages:
        assert f'<input type="submit" class="{look}" value="Yes, do it">' in page.content.decode()


def test_resume_takes_what_can_go_on(boss: Client) -> None:
    runs = [make_run(status) for status in ("failed", "blocked", "cancelled", "paused", "queued")]
    asked = ask(boss, "resume_selected", runs)
    assert "Resume these 4 runs?" in text_of(asked)
    assert "4 runs go on." in text_of(answer(boss, asked, "mended"))
    assert set(Run.objects.values_list("status", flat=True)) == {"queued"}
    assert LogEntry.objects.count() == Audit.objects.count() == 4


def test_runs_that_ended_in_between_are_left_alone(boss: Client) -> None:
    runs = [make_run("queued"), make_run("queued")]
    asked = ask(boss, "cancel_selected", runs)
    boss.post(verb_url(runs[0], "cancel"), {"confirmed": "1"})
    assert "1 run was asked to stop." in text_of(answer(boss, asked, "late"))
    assert Audit.objects.filter(reason="late").get().run_id == runs[1].pk


def test_a_reason_that_is_too_long_asks_again_about_the_same_runs(boss: Client) -> None:
    runs = [make_run("queued") for _ in range(3)]
    asked = ask(boss, "cancel_selected", runs[:2])
    again = answer(boss, asked, "x" * 1_001)
    assert "Cancel these 2 runs?" in text_of(again)
    answer(boss, again, "shorter")
    assert Run.objects.filter(status="cancelled").count() == 2


@pytest.mark.parametrize("ids", ["", "nonsense", "a,b", "x" * 200_000])
def test_a_forged_list_of_runs_is_refused(boss: Client, ids: str) -> None:
    run = make_run("queued")
    data = {"action": "cancel_selected", ACTION_CHECKBOX_NAME: str(run.pk), "confirmed": "1", "ids": ids}
    response = boss.post(list_url(), data, follow=True)
    assert "That is not a list of runs." in text_of(response)
    assert not Audit.objects.exists()


def test_an_action_on_nothing_that_fits_says_so(boss: Client) -> None:
    asked = boss.post(
        list_url(), {"action": "resume_selected", ACTION_CHECKBOX_NAME: str(make_run("queued").pk)}, follow=True
    )
    assert "That can be done to none of these runs." in text_of(asked)


def test_many_runs_are_done_in_batches(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.admin.verbs.AT_ONCE", 2)
    runs = [make_run("failed") for _ in range(5)]
    assert "5 runs go on." in text_of(answer(boss, ask(boss, "resume_selected", runs), ""))
    assert LogEntry.objects.count() == 5
    assert get_run(runs[0].pk).status == Status.QUEUED


# --- how what came of it is marked ---------------------------------------------------------------


def by_button(client: Client, verb: str, run: Run) -> Any:
    return client.post(verb_url(run, verb), {"confirmed": "1"})


def by_action(client: Client, verb: str, run: Run) -> Any:
    picked = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: str(run.pk), "confirmed": "1"}
    return client.post(list_url(), {**picked, "ids": run.pk.hex})


def by_sweep(client: Client, verb: str, run: Run) -> Any:
    every = {"action": f"{verb}_selected", ACTION_CHECKBOX_NAME: "all", "select_across": "1", "confirmed": "1"}
    return client.post(list_url(), {**every, "upto": str(run.pk)})


FITS = {"cancel": "queued", "pause": "queued", "resume": "failed", "rerun": "succeeded"}


@pytest.mark.parametrize("verb", FITS)
@pytest.mark.parametrize("way", [by_button, by_action, by_sweep])
@pytest.mark.parametrize(
    ("outcome", "marked"), [("worked", ["success"]), ("nothing", ["warning"]), ("refused", ["error"])]
)
def test_what_came_of_it_is_marked(
    boss: Client, monkeypatch: pytest.MonkeyPatch, verb: str, way: Any, outcome: str, marked: list[str]
) -> None:
    """As Django shows them a success is green: one that did nothing, or not all, must not look like it."""
    # What it is done to is over, or has no input, where nothing can be done.
    run = make_run(FITS[verb] if outcome != "nothing" else "queued" if verb == "resume" else "cancelled")
    if outcome != "nothing":
        run.payloads.create(kind="input", data="[[], {}]")
    if outcome == "refused":
        monkeypatch.setattr(RunVerb, "perform", refuse)
    # Of very many what was held by others is passed by, and those that come next are not.
    expected = ["warning"] * 2 if outcome == "refused" and way is by_sweep else marked
    told = list(get_messages(way(boss, verb, run).wsgi_request))
    assert [message.level_tag for message in told] == expected
    assert LogEntry.objects.count() == int(outcome == "worked")


def refuse(_verb: RunVerb, run_ids: Any, **_more: Any) -> int:
    """Another transaction holds them; of none it is not asked."""
    if locked := list(run_ids):
        raise RunLocked(locked, 2.0)
    return 0


@pytest.mark.parametrize("way", [by_button, by_action, by_sweep])
def test_what_it_could_not_be_done_to_after_all_is_no_success(
    boss: Client, monkeypatch: pytest.MonkeyPatch, way: Any
) -> None:
    """It was eligible when it was looked for, and is not under the lock."""
    monkeypatch.setattr(RunVerb, "perform", lambda *_args, **_more: 0)
    told = list(get_messages(way(boss, "resume", make_run("failed")).wsgi_request))
    assert [message.level_tag for message in told] == ["warning"]


@pytest.mark.parametrize("more", [{"ids": "x"}, {"upto": "x"}, {"upto": str(uuid7()), "named": "x"}])
def test_what_is_no_list_of_runs_is_an_error(boss: Client, more: dict[str, str]) -> None:
    picked = {"action": "resume_selected", ACTION_CHECKBOX_NAME: "all", "select_across": "1", "confirmed": "1"}
    make_run("failed")
    told = list(get_messages(boss.post(list_url(), {**picked, **more}).wsgi_request))
    assert [message.level_tag for message in told] == ["error"]


# --- an answer that comes twice --------------------------------------------------------------


def answer_again(client: Client, asked: Any, **more: str) -> Any:
    """Sends all that the form has."""
    fields = {field.name: field.value() for field in asked.context["form"] if field.value() is not None}
    data = {**dict(asked.context["hidden"]), **fields, "confirmed": "1", **more}
    return client.post(list_url(), data, follow=True)


def test_an_answer_that_comes_twice_starts_each_run_once(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.admin.once.AT_ONCE", 2)
    runs = [doubling.enqueue(number).run for number in range(3)]
    before = ask(boss, "rerun_selected", runs[:1])
    asked = ask(boss, "rerun_selected", runs)
    for _ in range(2):
        assert "3 runs were started anew." in text_of(answer_again(boss, asked, reason="mended"))
    assert Run.objects.count() == 6
    assert LogEntry.objects.count() == 3 and Audit.objects.filter(verb="rerun").count() == 6
    # A question of before was about a run that has its new one by now.
    answer_again(boss, before)
    assert Run.objects.count() == 6
    answer_again(boss, ask(boss, "rerun_selected", runs[:1]))
    assert Run.objects.count() == 7


def test_what_another_person_did_meanwhile_is_no_answer(boss: Client, person: Person) -> None:
    run = doubling.enqueue(1).run
    asked = ask(boss, "rerun_selected", [run])
    other = person(*LOOK, "rerun_run", name="bob")
    answer_again(other, ask(other, "rerun_selected", [run]))
    answer_again(boss, asked)
    assert Run.objects.count() == 3


@pytest.mark.parametrize("mark", ["", "x", "-1", "9" * 40, "²"])
def test_a_forged_mark_is_none(boss: Client, mark: str) -> None:
    run = doubling.enqueue(1).run
    for _ in range(2):
        answer_again(boss, ask(boss, "rerun_selected", [run]), asked_after=mark)
    assert Run.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_clicks_at_once_start_it_once(boss: Client) -> None:
    run = doubling.enqueue(1).run
    asked = ask(boss, "rerun_selected", [run])
    with Threads() as threads:
        barrier = threading.Barrier(2)

        def click() -> Any:
            client = Client()
            client.cookies = boss.cookies
            barrier.wait(60)
            return answer_again(client, asked)

        clicks = [threads.start(click) for _ in range(2)]
        assert {answer_of(one).status_code for one in clicks} == {200}
    assert Run.objects.count() == 2

"""The overview: what is held, and what has failed or is blocked and is resumed in two clicks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import overview, sweeping
from django_durable.models import Hold, Run
from tests.admin.conftest import LOOK, Person
from tests.admin.overviews import FRAGMENT, HOUR, INDEX, MINUTE, OVERVIEW, links, look, midnight, tally
from tests.admin.pages import list_url, text_of
from tests.admin.test_all_that_match import answer
from tests.admin.test_all_that_match import statuses as statuses_of
from tests.admin.world import make_run

# --- what is held ------------------------------------------------------------------------------


def holds(client: Client) -> list[str]:
    """What is said of each."""
    page = client.get(FRAGMENT).content.decode()
    if 'class="durable-held"' not in page:
        return []
    lines = page.split('class="durable-held"')[1].split("</ul>")[0].split("<li>")[1:]
    return [" ".join(unescape(re.sub("<.*?>", "", line)).split()) for line in lines]


@pytest.mark.usefixtures("worker")
def test_what_is_held_is_said_by_whom_since_when_and_why(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    since = datetime(2026, 3, 1, 12, tzinfo=UTC)
    Hold.objects.create(kind=Hold.WORKFLOW, name="app & <co>", since=since, actor="ann", reason="wrong <prices>")
    Hold.objects.create(kind=Hold.QUEUE, name="vip", since=since)
    assert holds(boss) == [
        "held queue vip since 2026-03-01 17:30:00",
        "held workflow app & <co> by ann, since 2026-03-01 17:30:00 wrong <prices>",
    ]
    assert links(boss)["workflow app & <co>"] == reverse("admin:django_durable_workflows")
    assert "Nothing needs you." in look(boss), "it is held on purpose"


@pytest.mark.usefixtures("worker")
def test_where_nothing_is_held_nothing_is_said_of_it(boss: Client) -> None:
    assert holds(boss) == []


@pytest.mark.usefixtures("worker")
def test_of_very_many_that_are_held_some_are_told(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "HOLDS_SHOWN", 2)
    for name in "cab":
        Hold.objects.create(kind=Hold.QUEUE, name=name)
    assert [text.split(" since")[0] for text in holds(boss)][:2] == ["held queue a", "held queue b"]
    assert links(boss)["There are more; all of them"] == reverse("admin:django_durable_workflows")


# --- and what is done about it -----------------------------------------------------------------


def resume_forms(client: Client) -> dict[str, tuple[str, dict[str, str]]]:
    """By need, where the button sends what."""
    found = {}
    section = client.get(FRAGMENT).content.decode().split('id="durable-needs"')[1].split("</section>")[0]
    # Those beside a name have more to their id.
    for line in re.split(r'<li id="durable-need-(?=[a-z]+")', section)[1:]:
        if form := re.search(r'<form method="post" action="([^"]*)".*?</form>', line, re.DOTALL):
            fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', form.group())
            found[line.split('"')[0]] = unescape(form.group(1)), dict(fields)
    return found


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("need", ["blocked", "failed"])
def test_they_are_resumed_in_two_clicks(person: Person, need: str) -> None:
    client = person("view_run", "resume_run")
    yesterday = midnight() - MINUTE
    runs = [make_run(status) for status in ("blocked", "blocked", "failed", "failed", "paused", "cancelled")]
    old = make_run("failed", finished_at=yesterday)
    url, fields = resume_forms(client)[need]
    asked = client.post(url, fields)
    assert "Resume: all runs that match" in text_of(asked) and "This can be done to 2 runs." in text_of(asked)
    assert statuses_of(*runs[:4]) == ["blocked", "blocked", "failed", "failed"], "it is asked first"
    assert asked.context["back"] == OVERVIEW
    done = answer(client, asked, "mended")
    assert done.url == OVERVIEW, "the list of those that stand failed has nothing left to show"
    assert "2 runs go on." in text_of(client.get(done.url))
    resumed = {
        "blocked": ["queued", "queued", "failed", "failed"],
        "failed": ["blocked", "blocked", "queued", "queued"],
    }
    assert statuses_of(*runs, old) == [*resumed[need], "paused", "cancelled", "failed"]


def named_forms(client: Client, need: str = "failed") -> dict[str, tuple[str, dict[str, str]]]:
    """By what the button beside a name says of itself, where it sends what."""
    lines = client.get(FRAGMENT).content.decode().split(f'id="durable-need-{need}"')[1].split("</section>")[0]
    line = re.split(r'<li id="durable-need-[a-z]+"', lines)[0]
    found = {}
    for form in re.findall(r"<form .*?</form>", line.split("<ul>")[1], re.DOTALL):
        [label], [url] = re.findall('aria-label="([^"]*)"', form), re.findall('action="([^"]*)"', form)
        fields = re.findall(r'<input type="hidden" name="(\w+)" value="(\w*)">', form)
        found[unescape(label)] = unescape(url), {name: value for name, value in fields if name[:4] != "csrf"}
    return found


@pytest.mark.usefixtures("worker")
def test_what_failed_of_one_workflow_is_resumed_in_two_clicks(person: Person) -> None:
    client = person("view_run", "resume_run")
    mine, other = make_run("failed", workflow="app & <co>"), make_run("failed")
    old = make_run("failed", workflow="app & <co>", finished_at=midnight() - MINUTE)
    tally(workflow="app & <co>", failed=3)
    tally(failed=1)
    forms = named_forms(client)
    assert set(forms) == {"Resume: app & <co>: 3 failures", "Resume: app.doubling: 1 failure"}
    url, fields = forms["Resume: app & <co>: 3 failures"]
    asked = client.post(url, fields)
    assert "Workflow app & <co>" in text_of(asked)
    done = answer(client, asked, "mended")
    assert "1 run goes on." in text_of(client.get(done.url))
    assert statuses_of(mine, other, old) == ["queued", "failed", "failed"]


@pytest.mark.usefixtures("worker")
def test_what_is_blocked_for_one_reason_is_resumed_in_two_clicks(person: Person) -> None:
    client = person("view_run", "resume_run")
    crashed, diverged = make_run("blocked", block_reason="crashed"), make_run("blocked", block_reason="diverged")
    forms = named_forms(client, "blocked")
    assert set(forms) == {"Resume: crashed: 1", "Resume: diverged: 1"}
    url, fields = forms["Resume: crashed: 1"]
    done = answer(client, client.post(url, fields), "mended")
    assert "1 run goes on." in text_of(client.get(done.url))
    assert statuses_of(crashed, diverged) == ["queued", "blocked"]


@pytest.mark.usefixtures("worker")
def test_where_somebody_else_was_quicker_it_says_why_nothing_is_done(person: Person) -> None:
    client = person("view_run", "resume_run")
    run = make_run("failed")
    url, fields = resume_forms(client)["failed"]
    asked = client.post(url, fields)
    Run.objects.filter(pk=run.pk).update(status="queued", finished_at=None, queued_at=timezone.now())
    text = text_of(client.get(answer(client, asked, "mended").url))
    assert "Nothing goes on: it does so already" in text and "0 runs go on" not in text


@pytest.mark.usefixtures("worker")
def test_who_may_not_resume_has_no_button_beside_a_workflow(person: Person) -> None:
    make_run("failed")
    make_run("blocked")
    tally(failed=1)
    assert named_forms(person(*LOOK)) == named_forms(person(*LOOK, name="ben"), "blocked") == {}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("permissions", "needs"),
    [
        (("view_run", "resume_run"), {"blocked", "failed"}),
        (("change_run", "resume_run"), {"blocked", "failed"}),
        (("view_run", "cancel_run", "pause_run", "rerun_run", "hold_queue"), set()),
        (LOOK, set()),
    ],
)
def test_the_button_is_for_those_who_may_resume(person: Person, permissions: tuple[str, ...], needs: set[str]) -> None:
    client, runs = person(*permissions), [make_run("blocked"), make_run("failed")]
    make_run("running", lease_expires_at=timezone.now() - HOUR)
    assert set(resume_forms(client)) == needs
    if not needs:
        client.post(list_url("?status=blocked"), resume_fields())
        assert statuses_of(*runs) == ["blocked", "failed"]


def resume_fields() -> dict[str, str]:
    return {"action": "resume_selected", "select_across": "1", "_selected_action": "all"}


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("url", [OVERVIEW, INDEX, FRAGMENT])
def test_each_button_has_the_token_and_says_what_it_is_for(boss: Client, url: str) -> None:
    make_run("failed")
    line = boss.get(url).content.decode().split('id="durable-need-failed"')[1].split("</form>")[0]
    assert 'name="csrfmiddlewaretoken"' in line
    assert 'aria-label="Resume: 1 run has failed today"' in line and ">Resume…</button>" in line


@pytest.mark.usefixtures("worker")
def test_one_that_went_on_meanwhile_is_asked_about_no_more(boss: Client) -> None:
    run = make_run("failed")
    url, fields = resume_forms(boss)["failed"]
    Run.objects.filter(pk=run.pk).update(status="succeeded")
    refused = boss.post(url, fields, follow=True)
    assert "That can be done to none of these runs." in text_of(refused)
    assert refused.request["PATH_INFO"] == OVERVIEW


@pytest.mark.usefixtures("worker")
def test_who_goes_on_after_a_first_request_comes_back_to_the_overview_too(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make_run("failed") for _ in range(2)]
    monkeypatch.setattr(sweeping, "SECONDS", 0)
    monkeypatch.setattr(sweeping, "AT_ONCE", 1)
    url, fields = resume_forms(boss)["failed"]
    asked, turns = boss.post(url, fields), 0
    while (asked := answer(boss, asked, "mended")).status_code == 200:
        turns += 1
        assert asked.context["back"] == OVERVIEW and asked.context["done"]
    assert asked.url == OVERVIEW and turns
    assert statuses_of(*runs) == ["queued", "queued"]


def test_the_list_comes_back_to_what_it_had_chosen(boss: Client) -> None:
    make_run("failed")
    url, fields = list_url("?status=failed"), {"action": "resume_selected", "select_across": "1"}
    asked = boss.post(url, {**fields, "_selected_action": "all", "asked_on": "https://other.example"})
    assert asked.context["back"] == url
    assert answer(boss, asked, "mended").url.startswith(f"{url}&created=")

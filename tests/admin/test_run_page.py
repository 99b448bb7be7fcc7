from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse
from django.utils import timezone

from django_durable.admin import RunAdmin, WorkerAdmin
from django_durable.admin.journal import ENTRIES_SHOWN
from django_durable.client.verbs import fork, rerun
from django_durable.client.why import why
from django_durable.core.journal.states import Status
from django_durable.core.payloads.codec import encode
from django_durable.models import IdempotencyKey, Payload, Run, Worker
from django_durable.store.keys import hash_of
from django_durable.testing import run_until_idle
from tests.admin.conftest import LOOK, Person
from tests.admin.facts import facts
from tests.admin.pages import judge, list_url, run_url, text_of, verb_url
from tests.admin.world import make_entry, make_full_run, make_run, make_worker
from tests.app.workflows import doubling, failing, listening, parent

AN_HOUR_AGO = timezone.now() - timedelta(hours=1)


second = admin.AdminSite("second")
second.register(Run, RunAdmin)
second.register(Worker, WorkerAdmin)
urlpatterns = [path("admin/", admin.site.urls), path("second/", second.urls)]


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("part", ["", "live/"])
def test_a_second_site_leads_to_its_own_pages(boss: Client, part: str) -> None:
    run = parent.enqueue(1)
    run_until_idle()
    Run.objects.filter(pk=run.id).update(status="waiting", finished_at=None, waiting_on="event:packed")
    Payload.objects.filter(run_id=run.id).delete()
    Payload.objects.create(run_id=run.id, kind="input", data=encode("x" * 3_000))
    url = reverse("admin:django_durable_run_change", args=[run.id], current_app="second")
    page = boss.get(url if not part else url.replace("change/", part)).content.decode()
    places = re.findall(r'(?:href|action|data-durable-refresh)="(/[^"]*)"', page)
    ours = [place for place in places if "/django_durable/" in place and not place.startswith("/static/")]
    for what in ("/change/", "/value/", *(["/live/", "/fork/"] if not part else [])):
        assert any(what in place for place in ours), what
    assert [place for place in ours if not place.startswith("/second/")] == []


@pytest.mark.parametrize(("status", "is_told"), [("waiting", True), ("succeeded", False), ("cancelled", False)])
def test_an_attempt_that_failed_is_told_while_the_run_is_live(boss: Client, status: str, is_told: bool) -> None:
    run = make_run(status)
    run.payloads.create(kind="retry", data=encode({"type": "OSError", "message": "no network", "traceback": ""}))
    text = text_of(boss.get(run_url(run)))
    assert ("Why the attempt before failed" in text) == ("no network" in text) == is_told


def test_a_finished_run_shows_what_it_did(boss: Client) -> None:
    handle = doubling.enqueue(number=21)
    run_until_idle()
    text = text_of(boss.get(run_url(handle.run)))
    for part in ("app.doubling", "succeeded", str(handle.id), "It is over: succeeded", "double", "step", "42"):
        assert part in text
    assert "{'number': 21}" in text


def test_a_failed_run_shows_its_error(boss: Client) -> None:
    handle = failing.enqueue()
    run_until_idle()
    text = text_of(boss.get(run_url(handle.run)))
    for part in ("failed", "ValueError", "boom", "Traceback", "explode"):
        assert part in text


def test_a_waiting_run_says_for_what(boss: Client) -> None:
    handle = listening.enqueue()
    run_until_idle()
    text = text_of(boss.get(run_url(handle.refresh().run)))
    assert "It waits for the event 'packed', and gives up at " in text
    assert "waiting for packed until" in text


def test_a_journal_past_the_soft_limit_is_told(boss: Client, settings: Any) -> None:
    run = make_run("waiting")
    for seq in range(1, 4):
        make_entry(run, f"entry {seq}", seq)
    for limit, is_told in ((3, False), (2, True)):
        settings.DURABLE = {**settings.DURABLE, "JOURNAL_WARN_ENTRIES": limit}
        assert (f"Its journal has more than {limit} entries" in text_of(boss.get(run_url(run)))) is is_told


def test_children_and_parents_are_linked(boss: Client) -> None:
    handle = parent.enqueue(number=1)
    run_until_idle()
    page = boss.get(run_url(handle.run)).content.decode()
    children = Run.objects.filter(parent_id=handle.id)
    assert len(children) == 2
    for child in children:
        assert page.count(run_url(child)) == 2  # among the children, and at its entry of the timeline
        assert run_url(handle.run) in boss.get(run_url(child)).content.decode()


def test_children_come_in_the_order_of_their_places(boss: Client) -> None:
    run = make_run("waiting")
    for place in ("row[10]", "row[2]", "load", "row[0]"):
        make_run(parent=run, parent_path=place)
    text = text_of(boss.get(run_url(run)))
    found = [text.rindex(place) for place in ("load", "row[0]", "row[2]", "row[10]")]
    assert found == sorted(found)


def test_a_parent_that_is_gone_is_left_out(boss: Client) -> None:
    run = make_run(parent_id=make_run().pk)
    Run.objects.filter(pk=run.parent_id).delete()
    response = boss.get(run_url(run))
    assert response.status_code == 200
    assert "Parent" not in text_of(response)


@pytest.mark.parametrize("status", sorted(Status))
def test_twelve_queries_are_enough(person: Person, status: str) -> None:
    client = person(*LOOK, "cancel_run", "resume_run", "send_event", "view_payload")
    run = make_full_run("text", status)
    for seq in range(10, 40):
        make_entry(run, f"entry {seq}", seq, kind="child", value="1")
        make_run(parent=run, parent_path=f"entry {seq}")
        run.events.create(name="packed", payload="1")
    client.get(run_url(run))
    with CaptureQueriesContext(connection) as queries:
        assert client.get(run_url(run)).status_code == 200
    assert len(queries) <= 12, [query["sql"] for query in queries]
    assert not any("COUNT(" in query["sql"] for query in queries)


def test_every_part_is_bounded(boss: Client) -> None:
    run = make_run("waiting")
    for seq in range(ENTRIES_SHOWN):
        make_entry(run, f"entry {seq}", seq)
    assert "There are more entries" not in text_of(boss.get(run_url(run)))
    make_entry(run, "entry that is too much", ENTRIES_SHOWN)
    for turn in range(101):
        make_run(parent=run, parent_path=f"x{turn}")
        run.events.create(name=f"event {turn}", payload=encode(None))
        run.audit.create(verb=f"verb {turn}", status_before="queued")
        run.tags.create(name=f"tag {turn:03}")
    text = text_of(boss.get(run_url(run)))
    assert f"There are more entries; these are {ENTRIES_SHOWN}." in text
    assert "entry that is too much" not in text
    assert "event 100" in text  # of the events too
    assert "event 0 " not in text
    assert "verb 100" in text  # of the audit the latest
    assert "verb 0 " not in text
    assert "tag 099" in text
    assert "tag 100" not in text
    assert text.count("There are more; these are the latest.") == 2


def test_a_run_says_under_which_key_it_was_started(boss: Client, person: Person) -> None:
    """Once, however many names its workflow has; it is no value, and there to be searched by."""
    run, other = make_run("waiting"), make_run("waiting")
    soon = timezone.now() + timedelta(days=1)
    for of, workflow, key in ((run, "a", "order <4711>"), (run, "b", "order <4711>"), (other, "a", "order 4712")):
        IdempotencyKey.objects.create(
            workflow=workflow, key_hash=hash_of(key), key=key, run_id=of.pk, input_hash="", expires_at=soon
        )
    page = person("view_run", name="ben").get(run_url(run)).content.decode()
    assert page.count("<code><bdi>order &lt;4711&gt;</bdi></code>") == 1
    assert "4712" not in page
    assert list(boss.get(list_url("?q=order+<4711>")).context["cl"].result_list) == [run]


def test_the_facts_of_a_run(boss: Client) -> None:
    """Each number and each time another."""
    since = timezone.now().replace(microsecond=0) - timedelta(hours=2, minutes=30)
    day = datetime(2031, 7, 1, tzinfo=UTC)
    times = ("created_at", "wake_at", "deadline_at", "cancel_requested_at", "pause_requested_at")
    run = make_run(
        "waiting", queue="vip", priority=7, attempt=2, max_attempts=4, claims=9, crashes=3, started_at=since,
        **{name: day + timedelta(days=number) for number, name in enumerate(times)},
    )  # fmt: skip
    assert facts(boss, run_url(run)) == [
        ("Queue", "vip"),
        ("Priority", "7"),
        ("Attempt", "2/4"),
        ("Claims", "9"),
        ("Crashes", "3"),
        ("Waits on", "event:packed"),
        ("Created", "2031-07-01 00:00:00"),
        ("Started", f"{since:%Y-%m-%d %H:%M:%S}"),
        ("So far", "2 h"),
        ("Wakes", "2031-07-02 00:00:00"),
        ("Deadline", "2031-07-03 00:00:00"),
        ("Asked to stop", "2031-07-04 00:00:00"),
        ("Asked to pause", "2031-07-05 00:00:00"),
    ]


def test_a_run_leads_to_those_that_are_like_it(boss: Client, person: Person) -> None:
    worker = make_worker()
    run = make_run("running", workflow="app & <co>", queue="v&p", leased_by=worker.pk)
    run.tags.create(name="order <1>")
    page = boss.get(run_url(run)).content.decode()
    for filters in ("workflow=app+%26+%3Cco%3E", "queue=v%26p", "q=order+%3C1%3E"):
        assert f'href="{list_url("?" + filters)}"' in page
    to_worker = reverse("admin:django_durable_worker_change", args=[worker.pk])
    assert f'<a href="{to_worker}">' in page.split('class="durable-facts"')[1]
    assert to_worker not in person("view_run", name="ben").get(run_url(run)).content.decode()


def test_what_says_nothing_is_no_fact_of_a_run(boss: Client) -> None:
    day = datetime(2031, 7, 1, tzinfo=UTC)
    run = make_run("succeeded", created_at=day, started_at=day, finished_at=day + timedelta(minutes=90))
    assert facts(boss, run_url(run)) == [
        ("Queue", "default"),
        ("Attempt", "1"),
        ("Claims", "1"),
        ("Created", "2031-07-01 00:00:00"),
        ("Started", "2031-07-01 00:00:00"),
        ("Finished", "2031-07-01 01:30:00"),
        ("Took", "1 h 30 min"),
    ]


def test_events_come_newest_first(boss: Client) -> None:
    run = make_run("waiting")
    for name in ("packed", "sent", "received"):
        run.events.create(name=name, payload=encode(None))
    text = text_of(boss.get(run_url(run))).partition("Payload")[2]
    assert text.index("received") < text.index("sent") < text.index("packed")


def family_of(page: str) -> str:
    return page[page.index("durable-family") :].partition("</section>")[0]


def test_of_many_children_those_that_are_not_well_come_first(boss: Client) -> None:
    run = make_run("waiting")
    children = [make_run("succeeded", parent=run, parent_path=f"items[{number}]") for number in range(150)]
    for number, status in ((140, "failed"), (120, "blocked"), (130, "waiting")):
        more = {"finished_at": None} if status != "failed" else {}
        more |= {"block_reason": "diverged"} if status == "blocked" else {}
        more |= {"waiting_on": "event:packed"} if status == "waiting" else {}
        Run.objects.filter(pk=children[number].pk).update(status=status, **more)
    page = boss.get(run_url(run)).content.decode()
    family = family_of(page)
    places = [family.index(run_url(children[number])) for number in (120, 140, 0, 96, 130)]
    assert places == sorted(places)
    assert run_url(children[97]) not in family
    assert f'href="{list_url(f"?parent={run.pk}")}"' in family
    listed = boss.get(list_url(f"?parent={run.pk}&status=failed")).content.decode()
    assert run_url(children[140]) in listed and run_url(children[0]) not in listed
    assert "150 runs" in text_of(boss.get(list_url(f"?parent={run.pk}")))


def test_children_that_are_not_well_are_found_among_very_many(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_durable.admin.children.LOOKED_AT", 3)
    run, other = make_run("waiting"), make_run("waiting")
    made = ["succeeded"] * 4 + ["failed", "blocked", "paused", "queued"]
    children = [make_run(status, parent=run, parent_path=f"items[{n}]") for n, status in enumerate(made)]
    strangers = [make_run("failed", parent=other, parent_path=f"items[{number}]") for number in range(4)]
    family = family_of(boss.get(run_url(run)).content.decode())
    assert [run_url(child) in family for child in children] == [True] * 3 + [False] + [True] * 4
    assert not any(run_url(stranger) in family for stranger in strangers)


def test_an_entry_leads_to_its_child_wherever_that_stands_among_very_many(boss: Client) -> None:
    run = make_run("waiting")
    make_entry(run, "items", 1, kind="map", status="waiting", finished_at=None)
    for number in range(130):
        child = make_run("succeeded", parent=run, parent_path=f"items[{number}]")
    make_entry(run, "items[129]", 2, kind="child")
    page = boss.get(run_url(run)).content.decode()
    assert run_url(child) not in family_of(page) and page.count(run_url(child)) == 1


def test_of_several_children_at_one_place_the_last_is_the_entrys(boss: Client) -> None:
    run = make_run("waiting")
    make_entry(run, "items[0]", 1, kind="child")
    first, second = (make_run(status, parent=run, parent_path="items[0]") for status in ("failed", "succeeded"))
    page = boss.get(run_url(run)).content.decode()
    assert (page.count(run_url(first)), page.count(run_url(second))) == (1, 2)


def test_a_run_leads_to_those_that_it_was_made_from_and_that_were_made_from_it(boss: Client) -> None:
    handle = doubling.enqueue(3)
    run_until_idle()
    again = rerun(handle.id, reason="<b>once more</b>", actor="ann")
    forked = fork(handle.id, "double", reason="", actor="ann")
    page = boss.get(run_url(handle.run))
    for new in (again, forked):
        assert f'<a href="{run_url(Run.objects.get(pk=new))}"><code>{new}</code></a>' in page.content.decode()
        assert run_url(handle.run) in boss.get(run_url(Run.objects.get(pk=new))).content.decode()
    assert f"{again} : <b>once more</b>" in text_of(page) and judge(page) == []
    assert boss.get(run_url(Run.objects.get(pk=forked))).content.decode().count(run_url(handle.run)) == 2


def test_a_reason_that_somebody_gave_is_no_link(boss: Client) -> None:
    run = make_run("queued")
    for verb, reason in (("cancel", str(run.pk)), ("rerun", f"see {run.pk}"), ("rerun", "")):
        run.audit.create(verb=verb, reason=reason, status_before="queued")
    page = boss.get(run_url(run)).content.decode()
    assert run_url(run) not in page[page.index("durable-audit") :]


def test_a_family_is_a_tree(boss: Client) -> None:
    runs = [make_run("waiting")]
    for depth in range(6):
        runs.append(make_run("waiting", parent=runs[-1], parent_path=f"step {depth}", root_id=runs[0].pk))
    page = boss.get(run_url(runs[5])).content.decode()
    tree = page[page.index("durable-family") :]
    places = [tree.index(run_url(run)) for run in (runs[0], *runs[1:5], runs[6])]
    assert places == sorted(places)  # the root, its kin, and what it has started
    assert "those in between are left out" not in text_of(boss.get(run_url(runs[4])))
    assert "those in between are left out" in text_of(boss.get(run_url(runs[6])))
    leading = f'<a href="{list_url(f"?parent={runs[5].pk}")}">with children of its own</a>'
    assert leading in boss.get(run_url(runs[4])).content.decode()
    assert "with children of its own" not in text_of(boss.get(run_url(runs[5])))


def test_runs_of_one_workflow_are_told_apart_by_the_titles_of_their_pages(boss: Client) -> None:
    titles = {
        unescape(re.findall(r"<title>(.*?)</title>", boss.get(run_url(make_run())).content.decode(), re.DOTALL)[0])
        for _ in range(2)
    }
    assert len(titles) == 2 and all("app.doubling |" in title for title in titles)


@pytest.mark.parametrize(("status", "says"), [("running", "There is none yet."), ("failed", "There is none.")])
def test_an_output_that_is_not_there_is_no_none(boss: Client, status: str, says: str) -> None:
    assert f"Output {says}" in text_of(boss.get(run_url(make_run(status))))


def test_a_form_of_a_run_leads_back_to_it_by_its_trail(boss: Client) -> None:
    run = make_run("running")
    page = boss.post(verb_url(run, "event")).content.decode()
    trail = page[page.index('class="breadcrumbs"') :].partition("durable-heading")[0]
    assert f'<a href="{run_url(run)}">app.doubling</a>' in trail


def test_progress_is_a_bar_with_its_words(boss: Client) -> None:
    run = make_run("waiting")
    run.payloads.create(kind="progress", data=encode({"done": 3, "total": 8, "message": "three of eight <b>"}))
    response = boss.get(run_url(run))
    bar = '<progress max="8" value="3" aria-label="Progress"></progress> 3/8</span>'
    assert f"{bar} <bdi>three of eight &lt;b&gt;</bdi>" in response.content.decode()


@pytest.mark.parametrize(
    ("status", "columns", "told"),
    [
        ("failed", {}, ", and stays so until somebody resumes it, which tries again what failed."),
        ("cancelled", {}, ", and stays so until somebody resumes it, which lets it go on from there."),
        ("running", {"cancel_requested_at": AN_HOUR_AGO}, "It stops at its next call, asked to at 20"),
        (
            "running",
            {"cancel_requested_at": AN_HOUR_AGO, "phase": "compensating"},
            "It undoes what it did, asked to stop at 20",
        ),
        ("blocked", {}, "A worker with other code tries it again, and so does a resume."),
    ],
)
def test_the_headline_tells_what_comes_next(boss: Client, status: str, columns: dict[str, Any], told: str) -> None:
    assert told in text_of(boss.get(run_url(make_run(status, **columns))))


def test_the_headline_tells_times_in_the_zone_of_the_site(boss: Client) -> None:
    run = make_run("scheduled", wake_at=datetime(2031, 7, 1, 12, tzinfo=UTC))
    with timezone.override("Europe/Berlin"):
        assert why(run).text == "It starts at 2031-07-01 14:00:00 CEST."


def test_annotations_are_shown_one_by_one_also_where_one_cannot_be_read(boss: Client) -> None:
    run = make_run("waiting")
    notes = '[["customer","gold"],["parcel",{"$":"gone","v":1}],["lines",[1,2]]]'
    Payload.objects.create(run=run, kind="notes", data=notes)
    text = text_of(boss.get(run_url(run)))
    for part in ("Annotations", "customer", "'gold'", "parcel", "cannot be read", "lines", "[1, 2]"):
        assert part in text


def test_a_new_run_has_an_empty_page(boss: Client) -> None:
    text = text_of(boss.get(run_url(make_run("scheduled"))))
    assert "Nothing is journaled yet." in text
    assert "It starts at" in text


def test_a_person_without_the_permission_is_told(person: Person) -> None:
    assert "You may not view payloads." in text_of(person(*LOOK).get(run_url(make_run())))


@pytest.mark.parametrize(
    ("missed", "shown"),
    [
        (encode(["charge", "<b>ship</b>"]), "without coming by charge, <b>ship</b>, which its journal has."),
        ("{damaged", "without coming by many entries, which its journal has."),
    ],
)
def test_what_changed_code_has_left_out_is_told(boss: Client, missed: str, shown: str) -> None:
    run = make_run("succeeded")
    assert "Its code has changed" not in text_of(boss.get(run_url(run)))
    run.payloads.create(kind="missed", data=missed)
    response = boss.get(run_url(run))
    assert f"Its code has changed: it ended {shown}" in text_of(response)
    assert judge(response) == []

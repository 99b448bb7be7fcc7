"""Holding and releasing in the admin: asked, done once, written down, and only by those who may."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_durable.models import Audit, Hold
from tests.admin.conftest import LOOK, Person
from tests.admin.overviews import FRAGMENT, OVERVIEW, rows
from tests.admin.pages import judge, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.test_workflows import PAGE
from tests.admin.world import make_run

HOLD, RELEASE = PAGE + "hold/", PAGE + "release/"
MAY = (*LOOK, "hold_queue")
KINDS = {"queue": "default", "workflow": "app.doubling"}


@pytest.mark.parametrize("kind", KINDS)
def test_hold_and_release(boss: Client, kind: str) -> None:
    data = {"kind": kind, "name": KINDS[kind]}
    asked = boss.post(HOLD, data)
    assert judge(asked) == []
    assert f"Hold this {kind}?" in text_of(asked) and "within 10 seconds" in text_of(asked)
    assert not Hold.objects.exists()
    done = boss.post(HOLD, {**data, "confirmed": "1", "reason": "a bad deploy"}, follow=True)
    assert done.redirect_chain == [(PAGE, 302)]
    assert f"Held: {KINDS[kind]}." in text_of(done)
    assert Hold.objects.values_list("kind", "name", "actor", "reason").get() == (
        kind,
        KINDS[kind],
        "ann",
        "a bad deploy",
    )
    again = boss.post(HOLD, {**data, "confirmed": "1", "reason": ""}, follow=True)
    assert f"Held already: {KINDS[kind]}." in text_of(again)

    assert f"Release this {kind}?" in text_of(boss.post(RELEASE, data))
    done = boss.post(RELEASE, {**data, "confirmed": "1", "reason": "mended"}, follow=True)
    assert f"Released: {KINDS[kind]}." in text_of(done)
    assert f"Not held: {KINDS[kind]}." in text_of(
        boss.post(RELEASE, {**data, "confirmed": "1", "reason": ""}, follow=True)
    )
    told = Audit.objects.order_by("pk").values_list("verb", "actor", "reason", kind)
    assert list(told) == [
        ("hold", "ann", "a bad deploy", KINDS[kind]),
        ("release", "ann", "mended", KINDS[kind]),
    ]
    entries = LogEntry.objects.order_by("pk").values_list("change_message", "object_repr")
    assert list(entries) == [
        ("Hold: a bad deploy", f"{kind} {KINDS[kind]}"),
        ("Release: mended", f"{kind} {KINDS[kind]}"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "queue"},
        {"kind": "cat", "name": "x"},
        {"kind": "queue", "name": "x" * 201},
        {"kind": "queue", "name": "a\0b"},
    ],
)
@pytest.mark.parametrize("url", [HOLD, RELEASE])
def test_what_no_button_sends_is_refused(boss: Client, url: str, data: dict[str, str]) -> None:
    assert boss.post(url, {**data, "confirmed": "1", "reason": ""}).status_code == 400
    assert not Hold.objects.exists()


def test_a_queue_that_is_called_as_a_workflow_is_another_thing(boss: Client) -> None:
    """A workflow has the names that it had as well; the queues of these names are several."""
    for name in ("page.now", "page.before"):
        Hold.objects.create(kind="queue", name=name)
    boss.post(RELEASE, {"kind": "queue", "name": "page.now", "confirmed": "1", "reason": ""})
    assert Hold.objects.get().name == "page.before"
    assert LogEntry.objects.get().object_repr == "queue page.now"


def test_a_workflow_that_nobody_knows_is_refused_in_a_sentence(boss: Client) -> None:
    answer = boss.post(HOLD, {"kind": "workflow", "name": "no.such", "confirmed": "1", "reason": ""}, follow=True)
    assert "No workflow is registered under" in text_of(answer)
    assert not Hold.objects.exists() and not LogEntry.objects.exists()


@pytest.mark.parametrize("what", CORPUS)
def test_questions_and_messages_escape_it(boss: Client, what: str) -> None:
    text = CORPUS[what][:200]
    Hold.objects.create(kind="queue", name=text, reason=text)
    for url in (HOLD, RELEASE):
        for confirmed in ({}, {"confirmed": "1", "reason": text}):
            assert judge(boss.post(url, {"kind": "queue", "name": text, **confirmed}, follow=True)) == []


@pytest.mark.parametrize("who", ["anonymous", "view", "blind", "holder", "boss"])
def test_it_needs_its_permission_and_the_one_to_look(person: Person, who: str) -> None:
    permissions = {"view": LOOK, "blind": ("hold_queue",), "holder": MAY, "boss": ()}
    client = Client() if who == "anonymous" else person(*permissions[who], boss=who == "boss")
    data = {"kind": "queue", "name": "default", "confirmed": "1", "reason": ""}
    allowed = who in ("holder", "boss")
    for url in (HOLD, RELEASE):
        for method in (client.get, client.head, client.put, client.delete):
            assert method(url).status_code == (302 if who == "anonymous" else 405)
        answer = client.post(url, data)
        assert answer.status_code == (302 if allowed or who == "anonymous" else 403)
        assert Audit.objects.count() == LogEntry.objects.count() == allowed * (1 if url == HOLD else 2)
    if who not in ("anonymous", "blind"):
        for url in (PAGE, OVERVIEW):
            assert (HOLD in client.get(url).content.decode()) == allowed


def test_every_post_is_checked_for_its_origin(person: Person) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = person(boss=True).cookies
    for url in (HOLD, RELEASE):
        assert (
            careful.post(url, {"kind": "queue", "name": "default", "confirmed": "1", "reason": ""}).status_code == 403
        )


def test_the_overview_tells_of_held_queues_and_comes_back(boss: Client) -> None:
    # In the time to come: its age stays what it is told as.
    make_run("queued", queue="vip", queued_at=timezone.now() + timedelta(hours=1))
    data = {"kind": "queue", "name": "vip", "back": "overview"}
    assert 'name="back" value="overview"' in boss.post(HOLD, data).content.decode()
    done = boss.post(HOLD, {**data, "confirmed": "1", "reason": ""}, follow=True)
    assert done.redirect_chain == [(OVERVIEW, 302)]
    page = boss.get(FRAGMENT).content.decode()
    assert "durable-pill-held" in page and RELEASE in page
    first, second = (boss.get(FRAGMENT)["ETag"] for _ in range(2))
    assert first == second, "a token that is masked anew is no news"
    assert reverse("admin:django_durable_workflows_release") == RELEASE


@pytest.mark.parametrize("permissions", [MAY, LOOK], ids=["holds", "looks"])
def test_the_row_of_a_held_queue_says_so_to_everybody(person: Person, permissions: tuple[str, ...]) -> None:
    """A workflow that is held holds no queue of its name."""
    for kind, name in (("queue", "vip"), ("workflow", "other")):
        Hold.objects.create(kind=kind, name=name)
        make_run("queued", queue=name)
    told = {row[0] for row in rows(person(*permissions), "queues")}
    assert {name for name in told if name.startswith(("vip", "other"))} == {"vip held", "other"}

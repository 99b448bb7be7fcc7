from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_durable.admin import workers
from django_durable.conf import durable_settings
from django_durable.models import Worker
from tests.admin.conftest import Person
from tests.admin.facts import facts
from tests.admin.pages import text_of
from tests.admin.world import make_run, make_worker

LIST = "admin:django_durable_worker_changelist"
PAGE = "admin:django_durable_worker_change"


@pytest.mark.parametrize(
    ("beats", "stopped", "state"), [(1, False, "alive"), (4, False, "silent"), (1, True, "stopped")]
)
def test_a_line_says_whether_it_lives(
    boss: Client, monkeypatch: pytest.MonkeyPatch, beats: int, stopped: bool, state: str
) -> None:
    now = timezone.now()
    monkeypatch.setattr("django_durable.core.clock.utcnow", lambda: now)
    last = now - timedelta(seconds=beats * durable_settings().HEARTBEAT_SECONDS)
    make_worker(
        host="mill", pid=4711, queues=["orders", "vip"], heartbeat_at=last, stopped_at=last if stopped else None
    )
    text = text_of(boss.get(reverse(LIST)))
    for part in (state, "mill", "4711", "orders , vip", "32", f"{beats * 10} s ago"):
        assert part in text


def page_of(client: Client, worker: Worker) -> HttpResponse:
    response: HttpResponse = client.get(reverse(PAGE, args=[worker.pk]))
    return response


def test_its_page_says_what_it_is_serves_and_knows(boss: Client) -> None:
    worker = make_worker(host="mill", workflows=["shop.fulfil_order", "app.doubling"], version="2.1", is_isolated=True)
    page = page_of(boss, worker)
    text = text_of(page)
    for part in ("mill:7", "alive", "It is alive", "Slots 32", "Version 2.1", "Kind isolated", "Queues default",
                 "app.doubling shop.fulfil_order", "What it works on Nothing."):  # fmt: skip
        assert part in text
    assert 'aria-current="page">Workers' in page.content.decode()


@pytest.mark.parametrize(
    ("beats", "stopped", "says"), [(4, False, "did not stop in order"), (1, True, "stopped in order")]
)
def test_its_page_says_how_it_ended(boss: Client, beats: int, stopped: bool, says: str) -> None:
    last = timezone.now() - timedelta(seconds=beats * durable_settings().HEARTBEAT_SECONDS)
    worker = make_worker(heartbeat_at=last, stopped_at=last if stopped else None)
    assert says in text_of(page_of(boss, worker))


@pytest.mark.parametrize(
    ("heard", "stopped", "up"), [(0, False, "3 h"), (1, True, "2 h"), (0, True, "3 h"), (1, False, "2 h")]
)
def test_its_page_says_how_long_it_was_up(boss: Client, heard: int, stopped: bool, up: str) -> None:
    """One that is over, or of which nobody knows any more, does not grow older."""
    now = timezone.now().replace(microsecond=0)
    last = now - timedelta(hours=heard)
    started = now - timedelta(hours=3)
    worker = make_worker(started_at=started, heartbeat_at=last, stopped_at=last if stopped else None)
    told = dict(facts(boss, reverse(PAGE, args=[worker.pk])))
    assert told["Up for"] == up
    assert told["Started"] == f"{started:%Y-%m-%d %H:%M:%S}"
    assert told.get("Stopped") == (f"{last:%Y-%m-%d %H:%M:%S}" if stopped else None)


def test_its_page_names_what_it_works_on(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "RUNS_SHOWN", 3)
    worker = make_worker()
    held = [make_run("running", leased_by=worker.pk) for _ in range(4)]
    others = [make_run("running"), make_run("waiting")]
    client = person("view_worker", "view_run")
    with CaptureQueriesContext(connection) as queries:
        page = page_of(client, worker).content.decode()
    assert [str(run.pk) in page for run in held] == [True, True, True, False]
    assert not any(str(run.pk) in page for run in others)
    [url] = re.findall('<a href="([^"]*)">There are more; all of them</a>', page)
    assert set(client.get(url).context["cl"].result_list) == set(held)
    assert len(queries) <= 8
    assert str(held[0].pk) not in page_of(person("view_worker", name="warden"), worker).content.decode()


def test_a_worker_that_is_gone_leads_to_the_list(boss: Client) -> None:
    worker = make_worker()
    Worker.objects.all().delete()
    for key in (worker.pk, "nonsense"):
        response = boss.get(reverse(PAGE, args=[key]), follow=True)
        assert response.redirect_chain == [(reverse(LIST), 302)]
        assert "There is no worker" in text_of(response)


def test_only_so_many_names_are_listed(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "NAMES_SHOWN", 2)
    text = text_of(page_of(boss, make_worker(workflows=["c", "b", "a"])))
    assert "Workflows a b There are more" in text


@pytest.mark.parametrize("name", [LIST, "admin:django_durable_overview"])
def test_of_a_worker_of_very_many_queues_a_line_has_the_first(boss: Client, name: str) -> None:
    make_worker(queues=[f"queue-{number}" for number in range(100)])
    # The overview has a table of queues besides.
    assert "queue-10 , queue-11 +88" in text_of(boss.get(reverse(name)))


def test_the_number_of_queries_does_not_grow(boss: Client) -> None:
    for pid in range(30):
        make_worker(pid=pid)
    boss.get(reverse(LIST))
    with CaptureQueriesContext(connection) as queries:
        boss.get(reverse(LIST))
    assert len(queries) <= 6


def test_those_that_live_stand_first_and_each_at_its_place(boss: Client) -> None:
    now = timezone.now()
    make_worker(host="old", stopped_at=now - timedelta(hours=2), heartbeat_at=now - timedelta(hours=2))
    make_worker(host="killed", heartbeat_at=now - timedelta(hours=1))
    for pid, beat in ((9, 1), (8, 2)):
        make_worker(host="mill", pid=pid, heartbeat_at=now - timedelta(seconds=beat))
    make_worker(host="forge", heartbeat_at=now - timedelta(seconds=3))
    rows = boss.get(reverse("admin:django_durable_worker_changelist")).context["cl"].result_list
    hosts = [(worker.host, worker.pid) for worker in rows]
    assert hosts[:3] == [("forge", hosts[0][1]), ("mill", 8), ("mill", 9)]
    assert [host for host, _ in hosts[3:]] == ["killed", "old"]

"""The overview: where it is, that nobody works is said first, its queues and workers; and what it costs to look."""

from __future__ import annotations

import re
from datetime import timedelta
from html import escape
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from django_durable.admin import overview
from django_durable.client import standing
from django_durable.models import Hold, Run
from tests.admin.conftest import LOOK, Person
from tests.admin.overviews import CHARTS, FRAGMENT, HOUR, INDEX, MINUTE, OVERVIEW, links, look, rows, tally
from tests.admin.pages import judge, list_url, run_url, text_of
from tests.admin.world import make_run, make_schedule, make_worker


def test_the_addresses_have_names() -> None:
    names = {"overview": OVERVIEW, "overview_fragment": FRAGMENT, "overview_charts": CHARTS}
    assert {name: reverse(f"admin:django_durable_{name}") for name in names} == names


@pytest.mark.parametrize("url", [OVERVIEW, INDEX])
def test_the_page_and_the_apps_own_show_it_and_how_it_is_refreshed(boss: Client, url: str) -> None:
    page = boss.get(url).content.decode()
    assert judge(boss.get(url)) == []
    for part in ("Needs a person", "Queues", "Workers", "The last hour", "The last day"):
        assert part in page
    assert f'data-durable-refresh="{FRAGMENT}" data-durable-every="5"' in page
    assert f'data-durable-refresh="{CHARTS}" data-durable-every="30"' in page
    assert 'data-durable-pause aria-pressed="false"' in page
    for file in ("refresh.js", "overview.css", "admin.css"):
        assert f"/static/django_durable/{file}" in page


def test_the_apps_page_still_lists_its_models(person: Person) -> None:
    assert "Runs" in look(person(*LOOK), INDEX)
    without = person("view_worker", name="ben").get(INDEX)
    assert "Workers" in text_of(without)
    assert "Needs a person" not in text_of(without)


# --- whether anybody works ---------------------------------------------------------------------


def test_nobody_alive_is_said_first_and_what_to_do(boss: Client) -> None:
    make_worker(host="mill", pid=4711, heartbeat_at=timezone.now() - 10 * MINUTE)
    make_run(queue="orders")
    text = look(boss)
    assert text.startswith("No worker is alive Nothing is worked on until one is started: manage.py durable_worker")
    assert "mill:4711 was heard of last, 10 min ago." in text
    # It is said once, and not for the queue again.
    assert "Nothing else needs you." in text
    assert "no worker" not in text


@pytest.mark.parametrize(
    ("stopped", "told"),
    [(False, "mill:4711 was heard of last, 2 d ago."), (True, "mill:4711 was heard of last: it stopped 2 d ago.")],
)
def test_who_was_heard_of_last_is_named_however_long_ago_and_also_where_it_stopped(
    boss: Client, person: Person, stopped: bool, told: str
) -> None:
    ended = timezone.now() - timedelta(days=2)
    make_worker(host="before", heartbeat_at=ended - HOUR)
    make_worker(host="mill", pid=4711, heartbeat_at=ended, stopped_at=ended if stopped else None)
    text = look(boss)
    assert told in text and "before" not in text
    assert "mill" not in look(person("view_run", name="ben"))


def test_of_two_the_one_that_stopped_later_is_the_last(boss: Client) -> None:
    make_worker(host="silent", heartbeat_at=timezone.now() - 50 * MINUTE)
    stopped = timezone.now() - 5 * MINUTE
    make_worker(host="stopped", heartbeat_at=stopped, stopped_at=stopped)
    assert "stopped:7 was heard of last: it stopped 5 min ago." in look(boss)


def test_where_nobody_was_ever_heard_of_nobody_is_named(boss: Client) -> None:
    assert "heard of last" not in look(boss)


def test_all_is_well(boss: Client) -> None:
    make_worker()
    make_run()
    text = look(boss)
    assert "Nothing needs you." in text
    assert "No worker is alive" not in text


# --- queues and workers ------------------------------------------------------------------------


def test_a_queue_is_a_line(boss: Client) -> None:
    make_worker(queues=["default", "mail"])
    for age in (3, 130):
        make_run(queued_at=timezone.now() - age * MINUTE)
    make_run("running")
    make_run("waiting")
    make_run("scheduled", queue="mail")
    tally(started=40, succeeded=24, failed=6, cancelled=5)
    tally(queue="gone", minute=timezone.now() - HOUR, succeeded=5)
    found = {row[0]: row[1:] for row in rows(boss, "queues")}
    assert found["default"] == ["2", "2 h", "1", "1", "0", "7.0", "20.0 %", "Hold…"]
    assert found["mail"] == ["0", "", "0", "0", "1", "0", "", "Hold…"]
    assert "gone" not in found


def test_of_very_many_queues_those_that_somebody_has_to_see_are_shown(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "QUEUES_SHOWN", 4)
    make_worker(queues=[f"a{number}" for number in range(9)])
    Hold.objects.create(kind=Hold.QUEUE, name="z held")
    tally(queue="y failing", failed=1)
    tally(queue="a8", succeeded=1)
    make_run(queue="x ready")
    make_run("waiting", queue="w waits")
    text = look(boss)
    names = [row[0].removesuffix(" no worker").removesuffix(" held") for row in rows(boss, "queues")]
    assert names == ["a0", "x ready", "y failing", "z held"]
    assert "There are more: those that are held, fail or have runs ready are shown before others." in text


def test_of_queues_that_were_not_looked_at_nothing_is_said_to_be_none(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "QUEUES_MOST", 2)
    make_worker(queues=["a", "b", "c"])
    for queue in "ab":
        # In the time to come: its age stays what it is told as.
        make_run(queue=queue, queued_at=timezone.now() + HOUR)
    make_run("running", queue="c")
    make_run(queue="nobody's")
    counts = {row[0]: row[1:5] for row in rows(boss, "queues")}
    assert (counts["a"], counts["c"]) == (["1", "under 15 s", "0", "0"], ["0+", "", "1", "0"])
    assert links(boss)["Runs may be ready in queues that no worker serves"] == list_url("?trouble=unserved")
    monkeypatch.setattr(standing, "QUEUES_MOST", 4)
    assert {row[0]: row[1] for row in rows(boss, "queues")}["c"] == "0"
    assert "Runs may be ready" not in look(boss)


def test_what_is_ready_leads_to_as_many_rows(boss: Client) -> None:
    make_worker(queues=["default", "dead"])
    for suspect in (False, False, True):
        make_run(suspect=suspect)
    make_run(queue="dead", suspect=True, queued_at=timezone.now() - HOUR)
    assert {row[0]: row[1] for row in rows(boss, "queues") if row[0] in ("default", "dead")} == {
        "default": "3", "dead": "1",
    }  # fmt: skip
    page = boss.get(FRAGMENT).content.decode()
    for queue, count in {"default": "3", "dead": "1"}.items():
        url = list_url(f"?status=queued&queue={queue}")
        assert f'<a href="{escape(url)}">{count}</a>' in page
        assert len(boss.get(url).context["cl"].result_list) == int(count)


def test_where_others_fill_what_is_read_nothing_is_said_to_be_none(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "OTHERS_MOST", 2)
    for _ in range(3):
        make_run("scheduled", queue="mail")
    assert f'<a href="{escape(list_url("?status=waiting&queue=mail"))}">0+</a>' in boss.get(FRAGMENT).content.decode()


def test_a_worker_is_a_line(boss: Client, person: Person) -> None:
    # In the time to come: the age of its heartbeat stays what it is told as.
    beat = timezone.now() + HOUR
    one = make_worker(
        host="mill", pid=4711, queues=["orders", "vip"], version="1.2.3", concurrency=8, heartbeat_at=beat
    )
    make_worker(host="died", heartbeat_at=timezone.now() - 20 * MINUTE)
    make_worker(host="long gone", heartbeat_at=timezone.now() - 2 * HOUR)
    make_worker(host="stopped", stopped_at=timezone.now())
    for _ in range(3):
        make_run("running", leased_by=one.pk)
    make_run("running", leased_by=uuid4())
    assert rows(boss, "workers") == [
        ["mill", "4711", "alive", "orders , vip", "3/8", "under 15 s ago", "1.2.3"],
        ["died", "7", "silent", "default", "0/32", "20 min ago", ""],
    ]
    url = links(boss)["3/8"]
    assert {run.leased_by for run in boss.get(url).context["cl"].result_list} == {one.pk}
    assert "0/32" not in links(boss)
    assert "mill" not in look(person("view_run", name="ben"))


def test_a_process_that_runs_suspects_says_so(boss: Client) -> None:
    """It serves its queue, and takes up nothing of what is ready there."""
    make_worker(host="mill")
    make_worker(host="apart", is_isolated=True)
    assert {row[0]: row[2] for row in rows(boss, "workers")} == {"mill": "alive", "apart": "alive isolated"}


def test_of_very_many_workers_the_list_has_the_others(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for minutes in range(3):
        make_worker(host=f"h{minutes}", heartbeat_at=timezone.now() - minutes * MINUTE)
    more = "There are more; all of them"
    monkeypatch.setattr(overview, "WORKERS_SHOWN", 3)
    assert len(rows(boss, "workers")) == 3 and more not in links(boss)
    monkeypatch.setattr(overview, "WORKERS_SHOWN", 2)
    assert [row[0] for row in rows(boss, "workers")] == ["h0", "h1"]
    assert len(boss.get(links(boss)[more]).context["cl"].result_list) == 3


def test_a_backlog_is_counted_to_an_end(boss: Client) -> None:
    make_worker()
    Run.objects.bulk_create(
        Run(id=uuid4(), status="blocked", block_reason="diverged", workflow="w", queue="default", root_id=uuid4())
        for _ in range(1_002)
    )
    assert "1,000+ runs are blocked" in links(boss)


@pytest.mark.parametrize(
    ("language", "rates", "need", "happened"),
    [
        (
            "en", ["1,137", "20.0 %"], "1,000+ runs are blocked",
            "1,137 started, 5,685 ended, of which 1,137 failed.",
        ),
        (
            "de", ["1.137", "20,0 %"], "1.000+ Läufe sind blockiert",
            "1.137 gestartet, 5.685 beendet, davon 1.137 fehlgeschlagen.",
        ),
    ],
)  # fmt: skip
def test_numbers_have_the_points_of_the_language(
    boss: Client, language: str, rates: list[str], need: str, happened: str
) -> None:
    Run.objects.bulk_create(
        Run(id=uuid4(), status="blocked", block_reason="diverged", workflow="w", queue="default", root_id=uuid4())
        for _ in range(1_002)
    )
    tally(started=1_137, succeeded=4_548, failed=1_137)
    with override(language):
        [default] = [row for row in rows(boss, "queues") if row[0].split()[0] == "default"]
        assert default[6:8] == rates
        assert need in links(boss)
        assert happened in look(boss, CHARTS)


# --- tabs --------------------------------------------------------------------------------------


def tabs(client: Client, url: str) -> tuple[list[str], list[str]]:
    """Their labels, and which is the page's own."""
    page = client.get(url).content.decode()
    nav = page.split('<nav class="durable-tabs"')[1].split("</nav>")[0]
    found = re.findall(r"<a ([^>]*)>(.*?)</a>", nav)
    return [label for _, label in found], [label for attributes, label in found if "aria-current" in attributes]


def test_all_pages_have_tabs(boss: Client) -> None:
    schedule, worker = make_schedule(), make_worker()
    own = {
        OVERVIEW: "Overview",
        INDEX: "Overview",
        list_url(): "Runs",
        run_url(make_run()): "Runs",
        reverse("admin:django_durable_schedule_changelist"): "Schedules",
        reverse("admin:django_durable_schedule_change", args=[schedule.pk]): "Schedules",
        reverse("admin:django_durable_workflows"): "Workflows",
        reverse("admin:django_durable_worker_changelist"): "Workers",
        reverse("admin:django_durable_worker_change", args=[worker.pk]): "Workers",
    }
    assert {url: tabs(boss, url)[1] for url in own} == {url: [label] for url, label in own.items()}
    assert set(own.values()) == set(tabs(boss, OVERVIEW)[0])


def test_tabs_are_of_what_one_may_see(person: Person) -> None:
    assert set(tabs(person("view_run"), OVERVIEW)[0]) <= {"Overview", "Runs", "Workflows"}
    assert tabs(person("view_worker", name="ben"), reverse("admin:django_durable_worker_changelist"))[0] == ["Workers"]


# --- what it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [timedelta(0), timedelta(minutes=10), timedelta(days=2)])
def test_the_number_of_queries_is_bounded(person: Person, silent: timedelta) -> None:
    # More are asked of somebody with permissions than of a superuser.
    client = person(*LOOK, "resume_run", "hold_queue")
    for pid in range(20):
        one = make_worker(pid=pid, queues=[f"q{pid}"], heartbeat_at=timezone.now() - silent)
        make_run("running", leased_by=one.pk, queue=f"q{pid}")
        make_run(queue=f"r{pid}")
        make_run("blocked")
        make_run("failed")
        make_run("running", lease_expires_at=timezone.now() - HOUR)
        make_schedule(name=str(pid), problem="no")
        tally(queue=f"q{pid}", succeeded=1, failed=1)
    for url in (OVERVIEW, INDEX, FRAGMENT, CHARTS):
        client.get(url)
        with CaptureQueriesContext(connection) as queries:
            client.get(url)
        assert len(queries) <= 12, (url, [query["sql"][:100] for query in queries])

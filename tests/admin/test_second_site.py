"""A site of the project's own beside Django's: all pages are there too, and lead to one another."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.admin.sites import AlreadyRegistered
from django.test import Client
from django.urls import path

from django_durable.admin import RunAdmin, ScheduleAdmin, WorkerAdmin, overview, register
from django_durable.models import Run, Schedule, Worker
from tests.admin.every import make_rows
from tests.admin.world import make_run, make_schedule, make_worker

second = admin.AdminSite("second")
register(second)
third = admin.AdminSite("third")
third.register(Schedule, ScheduleAdmin)
third.register(Worker, WorkerAdmin)
fourth = admin.AdminSite("fourth")
fourth.register(Run, RunAdmin)
urlpatterns = [
    *(path(f"{site.name}/", site.urls) for site in (second, third, fourth)),
    path("admin/", admin.site.urls),
]

PAGES = (
    *("", "django_durable/", "django_durable/run/", "django_durable/schedule/", "django_durable/worker/"),
    *("django_durable/run/overview/", "django_durable/run/workflows/"),
    *("django_durable/run/{0.run.pk}/change/", "django_durable/schedule/{0.schedule.pk}/change/"),
    "django_durable/worker/{0.worker.pk}/change/",
)


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("page", PAGES)
def test_its_pages_lead_to_its_own(boss: Client, page: str) -> None:
    answer = boss.get("/second/" + page.format(make_rows()))
    assert answer.status_code == 200
    places = re.findall(r'(?:href|action|data-durable-refresh)="(/[^"]*)"', answer.content.decode())
    ours = {place for place in places if "/django_durable/" in place and not place.startswith("/static/")}
    assert any(place.startswith("/second/django_durable/schedule/") for place in ours)
    assert [place for place in ours if not place.startswith("/second/")] == []


@pytest.mark.urls(__name__)
def test_its_entry_of_the_workflows_leads_to_its_page(boss: Client) -> None:
    answer = boss.get("/second/django_durable/workflowentry/")
    assert answer.headers["Location"] == "/second/django_durable/run/workflows/"


@pytest.mark.urls(__name__)
def test_a_site_without_runs_leads_to_none(boss: Client) -> None:
    schedule, worker, run = make_schedule(input='{"number": 4}'), make_worker(), make_run("running")
    Run.objects.filter(pk=run.pk).update(leased_by=worker.pk)
    schedule.fires.create(scheduled_for=run.created_at, fired_at=run.created_at, run_id=run.pk, outcome="started")
    place = f"/third/django_durable/schedule/{schedule.pk}"
    for url in (
        f"{place}/change/",
        "/third/django_durable/schedule/",
        f"/third/django_durable/worker/{worker.pk}/change/",
    ):
        page = boss.get(url)
        assert page.status_code == 200, url
        assert "django_durable/run/" not in page.content.decode() and 'href="?workflow' not in page.content.decode()
    fired = boss.post(f"{place}/fire/", {"confirmed": "1"})
    assert (fired.status_code, fired.headers["Location"]) == (302, f"{place}/change/")


@pytest.mark.urls(__name__)
@pytest.mark.parametrize(("site", "is_told"), [("second", True), ("fourth", False)])
def test_a_site_without_schedules_tells_of_none_that_are_late(boss: Client, site: str, is_told: bool) -> None:
    make_schedule(problem="no such zone")
    page = boss.get(f"/{site}/django_durable/run/overview/")
    assert page.status_code == 200
    assert ("late, failing or cannot fire" in page.content.decode()) is is_told


@pytest.mark.urls(__name__)
@pytest.mark.parametrize("shown", [0, 1])
def test_a_site_without_workers_leads_to_none(boss: Client, shown: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "WORKERS_SHOWN", shown)
    empty = boss.get(url := "/fourth/django_durable/run/overview/").content.decode()
    for worker in (make_worker(host="one"), make_worker(host="two")):
        make_run("running", leased_by=worker.pk)
    pages = [empty, boss.get(url).content.decode()]
    assert ["None has been heard of" in page for page in pages] == [True, not shown]
    for page in pages:
        assert 'href=""' not in page and "django_durable/worker/" not in page


def test_twice_is_refused() -> None:
    with pytest.raises(AlreadyRegistered):
        register(second)

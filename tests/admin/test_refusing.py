"""Sites of the project whose model admins let nobody look: no page of theirs is shown, none is led to, nothing is done.

Whoever comes has every permission there is, and finds all of it on a site where these do not say no.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import Client
from django.urls import path, reverse

from django_durable import tag_for
from django_durable.admin import RunAdmin, RunsInline, ScheduleAdmin, WorkerAdmin, register
from django_durable.models import Run, Schedule, Tag, Worker
from tests.admin.every import addresses, answer, make_rows, question
from tests.admin.test_access import ACTIONS, state
from tests.admin.world import make_run, make_schedule
from tests.app.models import Counter

OURS: dict[str, tuple[Any, type[Any]]] = {
    "run": (Run, RunAdmin),
    "schedule": (Schedule, ScheduleAdmin),
    "worker": (Worker, WorkerAdmin),
}
PAGES_OF_RUNS = ("overview", "workflows", "workflowentry")
LEADING_ON = {"workflowentry_changelist", *(f"{model}_old" for model in OURS)}
"""To the address that refuses."""


class Refusing:
    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


PANEL = Template("{% load django_durable %}{% durable_object_runs counter %}")


class CounterAdmin(admin.ModelAdmin):
    """With pages of its own, as Django's documentation makes them."""

    inlines = [RunsInline]

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        own = [
            path("<int:pk>/method/", view(self.report)),
            path("<int:pk>/partial/", view(partial(self.report, title="of a partial"))),
            path("<int:pk>/function/", view(lambda request, pk: self.report(request, pk))),
        ]
        return [*own, *super().get_urls()]

    def report(self, request: HttpRequest, pk: int, title: str = "") -> HttpResponse:
        counter = Counter.objects.get(pk=pk)
        return HttpResponse(PANEL.render(RequestContext(request, {"counter": counter, "title": title})))


def site_without(*hidden: str) -> admin.AdminSite:
    site = admin.AdminSite("-".join(["without", *hidden]))
    register(site)
    site.register(Counter, CounterAdmin)
    for name in hidden:
        model, ours = OURS[name]
        site.unregister(model)
        site.register(model, type(f"Refusing{ours.__name__}", (Refusing, ours), {}))
    return site


HIDDEN: list[tuple[str, ...]] = [*((name,) for name in OURS), tuple(OURS)]
SITES = [site_without(), *(site_without(*hidden) for hidden in HIDDEN)]
urlpatterns = [path("admin/", admin.site.urls), *(path(f"{site.name}/", site.urls) for site in SITES)]
pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}


def at(hidden: tuple[str, ...], url: str) -> str:
    return url.replace("/admin/", f"/{'-'.join(['without', *hidden])}/", 1)


def whose(name: str) -> str:
    """The model whose admin has that address."""
    first = name.partition("_")[0]
    return "run" if first in PAGES_OF_RUNS else first


@pytest.mark.parametrize("hidden", HIDDEN, ids="-".join)
def test_no_address_of_theirs_answers(boss: Client, hidden: tuple[str, ...]) -> None:
    rows = make_rows()
    before, wrong = state(), {}
    for name in (name for name in addresses() if whose(name) in (*hidden, "app")):
        for way, data in (("get", None), ("post", question(name)), ("answer", answer(name))):
            url = at(hidden, rows.url(name))
            status = (boss.get(url) if data is None else boss.post(url, data)).status_code
            is_of_others = name == "app_list" and hidden != tuple(OURS)
            if status not in ((302,) if name in LEADING_ON else (200,) if is_of_others else (403, 404, 405)):
                wrong[name, way] = status
    for (model, action), _ in ACTIONS.items():
        if model in hidden:
            row = rows.run if model == "run" else rows.schedule
            sent = {"action": action, "confirmed": "1", ACTION_CHECKBOX_NAME: str(row.pk), "ids": row.pk}
            wrong |= {
                (action, url): status
                for url in [at(hidden, rows.url(f"{model}_changelist"))]
                if (status := boss.post(url, sent).status_code) != 403
            }
    assert wrong == {}
    assert state() == before


def test_where_they_say_nothing_of_it_all_of_these_answer(boss: Client) -> None:
    rows = make_rows()
    refused = {name for name in addresses() if boss.get(at((), rows.url(name))).status_code == 403}
    assert {name.partition("_")[2] for name in refused} <= {"add", "delete"}


LINKS = re.compile(r'(?:href|action|data-durable-[\w-]+)="(/[^"]*)"')


def links_of(client: Client, hidden: tuple[str, ...]) -> dict[str, set[str]]:
    """By each page that is shown, the places that it leads to, without the site's own part of their addresses."""
    rows, begins, found = make_rows(), at(hidden, "/admin/"), {}
    Run.objects.filter(pk=make_run("running").pk).update(leased_by=rows.worker.pk)
    rows.schedule.fires.create(
        scheduled_for=rows.run.created_at, fired_at=rows.run.created_at, run_id=rows.run.pk, outcome="started"
    )
    urls = {"index": reverse("admin:index"), **{name: rows.url(name) for name in addresses()}}
    for name, url in urls.items():
        response = client.get(at(hidden, url))
        if response.status_code == 200 and not response.streaming:
            places = LINKS.findall(response.content.decode())
            found[name] = {place.removeprefix(begins) for place in places if place.startswith(begins)}
    return found


@pytest.mark.parametrize("hidden", HIDDEN, ids="-".join)
def test_no_page_leads_to_them(boss: Client, hidden: tuple[str, ...]) -> None:
    theirs = tuple(f"django_durable/{model}/" for model in (*hidden, *(["workflowentry"] if "run" in hidden else [])))
    found = links_of(boss, hidden)
    assert {"index", *(f"{model}_change" for model in OURS if model not in hidden)} <= found.keys()
    led = {page: {place for place in places if place.startswith(theirs)} for page, places in found.items()}
    assert {page: places for page, places in led.items() if places} == {}


def test_who_fires_a_schedule_is_not_led_to_a_run_either(boss: Client) -> None:
    schedule = make_schedule(input='{"number": 4}')
    url = reverse("admin:django_durable_schedule_fire", args=[schedule.pk])
    page = reverse("admin:django_durable_schedule_change", args=[schedule.pk])
    fired = boss.post(at(("run",), url), {"confirmed": "1"})
    assert (fired.status_code, fired.headers["Location"]) == (302, at(("run",), page))


def test_where_they_say_nothing_of_it_these_are_led_to(boss: Client) -> None:
    found = links_of(boss, ())
    for page in ("index", "run_changelist", "schedule_changelist", "schedule_change", "worker_change"):
        for model in (*OURS, "workflowentry") if page == "index" else OURS:
            assert any(place.startswith(f"django_durable/{model}/") for place in found[page]), (page, model)


@pytest.mark.parametrize("page", ["change", "method", "partial", "function"])
@pytest.mark.parametrize(("hidden", "is_shown"), [((), True), (("run",), False)], ids=["said nothing", "said no"])
def test_the_runs_of_an_object_are_shown_where_runs_are(
    boss: Client, hidden: tuple[str, ...], is_shown: bool, page: str
) -> None:
    counter = Counter.objects.create(name="a")
    run = make_run()
    Tag.objects.create(run=run, name=tag_for(counter))
    response = boss.get(at(hidden, f"/admin/app/counter/{counter.pk}/{page}/"))
    assert response.status_code == 200
    assert (str(run.pk) in response.content.decode()) == is_shown

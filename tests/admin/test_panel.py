"""The runs of a row of the project on the row's own page: ``inlines = [RunsInline]``."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.staticfiles import finders
from django.template import Context, RequestContext, Template
from django.test import Client, RequestFactory
from django.urls import path, reverse
from pytest_django import DjangoAssertNumQueries

from django_durable import tag_for
from django_durable.admin import RunAdmin, RunsInline, WorkerAdmin
from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run, Tag, Worker
from tests.admin.pages import judge, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.world import make_entry, make_run
from tests.app.models import Counter
from tests.docs.reading import ROOT, blocks

TAGGED = "{% load django_durable %}{% durable_object_runs order %}"
pytestmark = pytest.mark.urls(__name__)


class CounterAdmin(admin.ModelAdmin):
    inlines = [RunsInline]


site, bare = admin.AdminSite("admin"), admin.AdminSite("bare")
site.register(Run, RunAdmin)
site.register(Counter, CounterAdmin)
bare.register(Counter, CounterAdmin)
bare.register(Worker, WorkerAdmin)
urlpatterns = [path("admin/", site.urls), path("bare/", bare.urls)]


@pytest.fixture
def counter() -> Counter:
    made: Counter = Counter.objects.create(name="a")
    return made


def page_of(counter: Counter, of: str = "admin") -> str:
    return reverse("admin:app_counter_change", args=[counter.pk], current_app=of)


def linked(counter: Counter, status: str = "running", **more: Any) -> Run:
    run = make_run(status, **more)
    Tag.objects.create(run=run, name=tag_for(counter))
    return run


def staff(*permissions: str) -> Client:
    user = User.objects.create_user("zoe", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def test_django_finds_nothing_wrong_with_it() -> None:
    assert CounterAdmin(Counter, site).check() == []


def test_it_shows_the_runs_of_this_row(boss: Client, counter: Counter) -> None:
    run = linked(counter, workflow="shop.count")
    make_entry(run, "weigh")
    Payload.objects.create(run=run, kind="progress", data=encode({"done": 3, "total": 10, "message": ""}))
    linked(Counter.objects.create(name="b"), workflow="shop.other")
    response = boss.get(page_of(counter))
    text = text_of(response)
    assert "shop.count" in text
    assert "running" in text
    assert "after weigh" in text
    assert "3/10" in text
    assert "shop.other" not in text
    assert judge(response) == []
    for name in ("admin.css", "object_runs.css"):
        assert f"/static/django_durable/{name}" in response.content.decode()
        assert finders.find(f"django_durable/{name}")


def test_those_of_a_row_whose_key_begins_with_its_own_are_not_shown(boss: Client) -> None:
    one, twelve = (Counter.objects.create(pk=key, name=f"number {key}") for key in (1, 12))
    linked(one, workflow="shop.one")
    linked(twelve, workflow="shop.twelve")
    assert list(Tag.objects.order_by("name").values_list("name", flat=True)) == ["app.counter:1", "app.counter:12"]
    shown = {row.pk: re.findall(r"shop\.\w+", text_of(boss.get(page_of(row)))) for row in (one, twelve)}
    assert shown == {1: ["shop.one"], 12: ["shop.twelve"]}


def test_its_links_lead_to_the_run_and_to_all_of_them(boss: Client, counter: Counter) -> None:
    runs = [linked(counter) for _ in range(12)]
    make_run("running")
    page = boss.get(page_of(counter)).content.decode()
    shown = [run for run in runs if reverse("admin:django_durable_run_change", args=[run.pk]) in page]
    assert shown == runs[2:]
    url = f"{reverse('admin:django_durable_run_changelist')}?q=app.counter%3A{counter.pk}"
    assert f'href="{url}"' in page
    assert {run.pk for run in boss.get(url).context["cl"].result_list} == {run.pk for run in runs}


def test_none_is_told(boss: Client, counter: Counter) -> None:
    assert f"No run has the tag app.counter:{counter.pk}" in text_of(boss.get(page_of(counter)))


@pytest.mark.parametrize("count", [0, 1, 30])
def test_it_takes_two_queries(
    boss: Client, counter: Counter, django_assert_num_queries: DjangoAssertNumQueries, count: int, settings: Any
) -> None:
    for _ in range(count):
        linked(counter)
    boss.get(page_of(counter))
    with django_assert_num_queries(5 if count else 4):  # session, user, the row; our one or two
        boss.get(page_of(counter))


@pytest.mark.parametrize(
    ("permissions", "sees"),
    [((), False), (("view_run",), True), (("change_run",), True), (("cancel_run", "view_payload"), False)],
)
def test_it_is_for_those_who_may_look_at_runs(counter: Counter, permissions: tuple[str, ...], sees: bool) -> None:
    linked(counter, workflow="shop.count")
    for more in ("view_counter", "change_counter"):
        response = staff(*permissions, more).get(page_of(counter))
        assert response.status_code == 200
        assert ("shop.count" in text_of(response)) is sees, more
        assert ("durable_runs" in response.content.decode()) is sees, more
        User.objects.all().delete()


def tagged(row: object, *permissions: str, page: str = TAGGED) -> str:
    """What the tag makes of the row on a page for somebody with these permissions."""
    request = RequestFactory().get("/")
    request.user = User.objects.create_user(f"user {User.objects.count()}", is_staff=True)
    request.user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    request.current_app = "admin"  # type: ignore[attr-defined]
    return Template(page).render(RequestContext(request, {"order": row})).strip()


def test_a_tag_puts_the_same_on_another_page(counter: Counter) -> None:
    run = linked(counter, workflow="shop.count")
    linked(Counter.objects.create(name="b"), workflow="shop.other")
    shown = tagged(counter, "view_run")
    assert "shop.count" in shown and "shop.other" not in shown
    assert f'href="{reverse("admin:django_durable_run_change", args=[run.pk])}"' in shown
    [heading] = re.findall('<h2 id="(.*?)" class="inline-heading">Runs</h2>', shown)
    assert shown.count(f'aria-labelledby="{heading}"') == 2, "the section, and what scrolls in it"
    assert "No run can be linked to it." in tagged(Counter(name="new"), "view_run")


def test_the_documented_page_shows_it(counter: Counter) -> None:
    linked(counter, workflow="shop.count")
    text, _ = (block.text for block in blocks(ROOT / "docs" / "pages.md") if block.language == "html")
    page = tagged(counter, "view_run", page=text)
    assert "shop.count" in page
    for name in ("admin.css", "object_runs.css"):
        assert f'href="/static/django_durable/{name}"' in page


def test_the_tag_is_for_those_who_may_look_at_runs(counter: Counter) -> None:
    linked(counter)
    assert tagged(counter, "view_counter", "cancel_run") == ""
    alone = Template(TAGGED).render(Context({"order": counter}))
    assert alone.strip() == "", "nobody asks for it"


def test_the_page_of_a_row_that_is_still_to_be_made_has_none(boss: Client) -> None:
    assert "durable_runs" not in boss.get(reverse("admin:app_counter_add")).content.decode()
    assert boss.post(reverse("admin:app_counter_add"), {"name": "new", "value": 1}).status_code == 302
    assert Counter.objects.get().name == "new"


@pytest.mark.parametrize(
    "posted",
    [
        {},
        {"durable_runs-TOTAL_FORMS": "1", "durable_runs-INITIAL_FORMS": "1"},
        {"durable_runs-TOTAL_FORMS": "nonsense", "durable_runs-0-DELETE": "on"},
    ],
)
def test_the_row_is_saved_and_its_runs_are_left_alone(boss: Client, counter: Counter, posted: dict[str, str]) -> None:
    run = linked(counter)
    before = Run.objects.values().get()
    hostile = {"durable_runs-0-id": str(run.pk), "durable_runs-0-workflow": "other", "durable_runs-0-status": "failed"}
    response = boss.post(page_of(counter), {"name": "renamed", "value": 2, **hostile, **posted})
    assert response.status_code == 302
    assert Counter.objects.get().name == "renamed"
    assert Run.objects.values().get() == before
    assert '"name": "run"' not in LogEntry.objects.get().change_message


def test_a_form_with_errors_shows_them_and_the_runs(boss: Client, counter: Counter) -> None:
    linked(counter, workflow="shop.count")
    response = boss.post(page_of(counter), {"name": "", "value": 2})
    assert response.status_code == 200
    assert "This field is required" in text_of(response)
    assert "shop.count" in text_of(response)


def test_a_site_without_our_runs_does_not_ask_itself_how_they_do(boss: Client) -> None:
    """Its page of the app would have no address to ask but its own."""
    overview = 'class="durable-overview"'
    assert overview in boss.get(reverse("admin:app_list", args=["django_durable"])).content.decode()
    response = boss.get(reverse("admin:app_list", args=["django_durable"], current_app="bare"))
    assert response.status_code == 200
    assert "Workers" in text_of(response)
    page = response.content.decode()
    assert overview not in page and "data-durable-refresh" not in page


def test_a_site_without_our_pages_shows_them_without_links(boss: Client, counter: Counter) -> None:
    linked(counter, workflow="shop.count")
    response = boss.get(page_of(counter, "bare"))
    assert response.status_code == 200
    assert "shop.count" in text_of(response)
    assert "django_durable/run" not in response.content.decode()
    assert "All runs of this object" not in text_of(response)


@pytest.mark.parametrize("what", CORPUS)
def test_it_escapes_whatever_anybody_called_anything(boss: Client, counter: Counter, what: str) -> None:
    text = CORPUS[what]
    run = linked(counter, workflow=text[:200])
    make_entry(run, text[:200])
    Tag.objects.create(run=run, name=text[:200])
    Payload.objects.create(run=run, kind="progress", data=encode({"done": 1, "total": 2, "message": text}))
    Payload.objects.create(run=linked(counter), kind="progress", data=encode(text))
    Payload.objects.create(run=linked(counter), kind="progress", data='{"$":"gone","v":1}')
    response = boss.get(page_of(counter))
    assert response.status_code == 200
    assert judge(response) == []

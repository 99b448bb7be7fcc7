"""A site of the project's own beside Django's: all pages are there too, and lead to one another."""

from __future__ import annotations

import re

import pytest
from django.contrib import admin
from django.contrib.admin.sites import AlreadyRegistered
from django.test import Client
from django.urls import path

from django_durable.admin import register
from tests.admin.every import make_rows

second = admin.AdminSite("second")
register(second)
urlpatterns = [path("admin/", admin.site.urls), path("second/", second.urls)]

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


def test_twice_is_refused() -> None:
    with pytest.raises(AlreadyRegistered):
        register(second)

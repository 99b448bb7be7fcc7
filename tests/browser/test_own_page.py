"""A page of the project's own: who was shown a run sees how far it comes, without logging in anywhere."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.urls import include, path
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run
from tests.admin.world import make_run
from tests.browser.conftest import DESK, PHONE, watched
from tests.browser.seeing import contrasts, faint_of, is_dark, too_wide

PAGE = """{% load django_durable static %}<!doctype html><html lang="en"><head><title>Order</title>
<link rel="icon" href="{% static "admin/img/icon-yes.svg" %}">
<link rel="stylesheet" href="{% static "admin/css/base.css" %}">
<link rel="stylesheet" href="{% static "admin/css/dark_mode.css" %}">
<script src="{% static "django_durable/refresh.js" %}" defer></script></head>
<body><main><h1>Order</h1>{% durable_run_progress run every=1 %}</main></body></html>"""


def order(request: HttpRequest, run_id: UUID) -> HttpResponse:
    return HttpResponse(Template(PAGE).render(RequestContext(request, {"run": run_id})))


urlpatterns = [path("order/<uuid:run_id>/", order), path("durable/", include("django_durable.urls"))]


@pytest.mark.urls(__name__)
def test_a_run_is_followed_to_its_end_on_a_page_of_the_project(
    browser: Browser, live_server: Any, transactional_db: None
) -> None:
    run = make_run("running")
    said = Payload.objects.create(run=run, kind="progress", data=encode({"done": 1, "total": 4}))
    with watched(browser, base_url=live_server.url) as page:
        page.goto(f"/order/{run.pk}/")
        bar, status = page.get_by_role("progressbar", name="Progress"), page.get_by_role("status")
        expect(bar).to_have_attribute("value", "25")
        expect(status).to_have_text("running")
        can_be_read(page, "running")
        Payload.objects.filter(pk=said.pk).update(data=encode({"done": 3, "total": 4}))
        expect(bar).to_have_attribute("value", "75")
        over = {"lease_token": None, "leased_by": None, "lease_expires_at": None, "finished_at": timezone.now()}
        Run.objects.filter(pk=run.pk).update(status="succeeded", **over)
        expect(status).to_have_text("succeeded")
        expect(page.locator("[data-durable-refresh]")).to_have_attribute("data-durable-state", "done")
        can_be_read(page, "succeeded")


def can_be_read(page: Page, status: str) -> None:
    """By day on a desk, and on a phone at night: the page has the colours of the admin, and ours are those of the
    page."""
    for scheme, size in (("light", DESK), ("dark", PHONE)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        assert is_dark(page) is (scheme == "dark")
        found = contrasts(page)
        assert any(text.endswith(f": {status}") for text in found)
        assert faint_of(found) == {}
        assert too_wide(page) == []

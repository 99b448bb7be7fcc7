"""What is done to many is chosen in the lists. A row's page has buttons, which ask, and no action beside them."""

from __future__ import annotations

from http import HTTPStatus

import django
import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse
from playwright.sync_api import Page, expect

from django_durable.models import Audit, Run, Schedule
from tests.admin.world import make_run, make_schedule

RUNS = {f"{verb}_selected" for verb in ("cancel", "pause", "resume", "rerun", "export")}
SCHEDULES = {"enable_selected", "disable_selected"}
OFFERED = "(found) => found.map((option) => option.value).filter(Boolean)"


def test_they_are_on_the_lists_and_on_no_page_of_a_row(page: Page) -> None:
    for model, row, expected in (("run", make_run("failed"), RUNS), ("schedule", make_schedule(), SCHEDULES)):
        page.goto(reverse(f"admin:django_durable_{model}_changelist"))
        assert set(page.eval_on_selector_all("select[name=action] option", OFFERED)) == expected
        page.goto(reverse(f"admin:django_durable_{model}_change", args=[row.pk]))
        expect(page.locator(f"#content-main.durable-{model} .durable-head button").first).to_be_visible()
        # Whatever Django calls the field there.
        expect(page.locator("select[name$=action]")).to_have_count(0)


@pytest.mark.parametrize(("model", "expected"), [(Run, RUNS), (Schedule, SCHEDULES)])
def test_django_knows_of_no_other_place_for_them(
    model: type[Run | Schedule], expected: set[str], boss: User, rf: RequestFactory
) -> None:
    """From 6.1 on it can show actions on the page of a row, where ours would stand beside the buttons and act anew."""
    request, model_admin = rf.get("/"), admin.site.get_model_admin(model)
    request.user = boss
    assert set(model_admin.get_actions(request)) == expected
    places = [place for place in getattr(admin, "ActionLocation", ()) if place.name != "CHANGE_LIST"]
    assert bool(places) is (django.VERSION >= (6, 1))
    for place in places:
        assert model_admin.get_actions(request, action_location=place) == {}, place


def test_one_that_is_sent_to_the_page_of_a_row_is_refused(boss: User) -> None:
    run, client = make_run("failed"), Client()
    client.force_login(boss)
    for prefix in ("", "change_form-"):
        sent = {f"{prefix}action": "resume_selected", "_selected_action": str(run.pk), "confirmed": "1"}
        response = client.post(reverse("admin:django_durable_run_change", args=[run.pk]), sent)
        assert response.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert Run.objects.get().status == "failed"
    assert not Audit.objects.exists()

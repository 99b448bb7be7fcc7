"""What is done to many is chosen in the lists: on a row's page no action of ours is offered, and none is taken."""

from __future__ import annotations

from http import HTTPStatus

import django
import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from django_durable.models import Audit, Run, Schedule
from tests.admin.pages import run_url
from tests.admin.world import make_run

EXPECTED = {
    Run: {f"{verb}_selected" for verb in ("cancel", "pause", "resume", "rerun", "export")},
    Schedule: {"enable_selected", "disable_selected"},
}


@pytest.mark.parametrize("model", EXPECTED)
def test_django_knows_of_no_other_place_for_them(model: type[Run | Schedule], boss: Client, rf: RequestFactory) -> None:
    """From 6.1 on it can show actions on the page of a row, where ours would stand beside the buttons and act anew."""
    request, model_admin = rf.get("/"), admin.site.get_model_admin(model)
    request.user = User.objects.get()
    assert set(model_admin.get_actions(request)) == EXPECTED[model]
    places = [place for place in getattr(admin, "ActionLocation", ()) if place.name != "CHANGE_LIST"]
    assert bool(places) is (django.VERSION >= (6, 1))
    for place in places:
        assert model_admin.get_actions(request, action_location=place) == {}, place


@pytest.mark.parametrize("prefix", ["", "change_form-"])
def test_one_that_is_sent_to_the_page_of_a_row_is_refused(boss: Client, prefix: str) -> None:
    run = make_run("failed")
    sent = {f"{prefix}action": "resume_selected", "_selected_action": str(run.pk), "confirmed": "1"}
    assert boss.post(run_url(run), sent).status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert Run.objects.get().status == "failed"
    assert not Audit.objects.exists()
